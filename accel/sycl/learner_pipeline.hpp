// The learner whose steps go through the pipeline of kernels/learner_pipeline.hpp: DQN on chains.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "accel/device/off_policy.hpp"
#include "machine.hpp"

namespace accel::sycl_backend {

class PipelineLearner : public device::DeviceLearner<SyclMachine> {
 public:
  PipelineLearner(SyclMachine machine, const device::LearnerOptions& options,
                  const Network& critic, int64_t row_depth, bool concurrent)
      : DeviceLearner(std::move(machine), options, Network{}, critic), row_depth_(row_depth) {
    for (int p = 0; p < options.n_pipelines; ++p) list_stages(int(critic.layers.size()), p);
    const std::size_t n_kernels = concurrent ? stages_.size() + 1 : 0;
    for (std::size_t i = 0; i < n_kernels; ++i) queues_.push_back(machine_.make_queue());
  }

 private:
  // In the order of the data, so that no kernel waits for a later one.
  void list_stages(int n_layers, int p) {
    const auto add = [this, p](const std::string& name, int layer) {
      stages_.push_back("learner_" + name + "_" + std::to_string(p) +
                        (layer > 0 ? "_" + std::to_string(layer) : ""));
    };
    add("producer", 0);
    for (int layer = 1; layer <= n_layers; ++layer) add("forward", layer);
    add("loss", 0);
    for (int layer = n_layers; layer > 1; --layer) add("backward", layer);
    for (int layer = 1; layer <= n_layers; ++layer) add("aggregate", layer);
  }

  void launch_step() override {
    run(true);
    launch_end(false);
  }
  void launch_gradient(portable::Part) override { run(false); }

  void run(bool applies) {
    if (view_.n_rows > row_depth_ * view_.n_pipelines)
      throw std::invalid_argument("a batch must have at most " +
                                  std::to_string(row_depth_ * view_.n_pipelines) +
                                  " rows in these pipelines, got " + std::to_string(view_.n_rows));
    if (!queues_.empty()) machine_.wait();  // for what the first queue still does
    for (std::size_t i = 0; i < stages_.size(); ++i)
      machine_.single_task(queue(i), stages_[i], view_);
    machine_.single_task(queue(stages_.size()), "learner_update", view_, int(applies));
    for (sycl::queue& each : queues_) each.wait_and_throw();
  }

  sycl::queue& queue(std::size_t stage) {
    return queues_.empty() ? machine_.queue() : queues_[stage];
  }

  int64_t row_depth_;                // rows that a pipe holds
  std::vector<std::string> stages_;  // names of their kernels, without the update
  std::vector<sycl::queue> queues_;  // one a kernel where they run at the same time
};

}  // namespace accel::sycl_backend
