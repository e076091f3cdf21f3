// The sum tree whose look-ups and changes go through the pipeline of kernels/tree_pipeline.hpp.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "accel/device/sum_tree.hpp"
#include "accel/sycl/tree_batch.hpp"
#include "machine.hpp"

namespace accel::sycl_backend {

// How a pipeline was compiled, and how its kernels are started.
struct Pipeline {
  int n_levels;
  int64_t pipe_depth;  // items that a pipe holds
  bool concurrent;     // all kernels at the same time
};

template <class Real>
class PipelineTree : public device::DeviceTree<SyclMachine, Real> {
 public:
  PipelineTree(SyclMachine machine, int64_t capacity, int log_fanout, Pipeline pipeline)
      : Base(std::move(machine), capacity, log_fanout), pipeline_(pipeline) {
    for (int level = 1; level <= pipeline.n_levels; ++level)
      levels_.push_back("tree_level_" + std::to_string(level));
    const std::size_t n_kernels = pipeline.concurrent ? levels_.size() + 2 : 0;
    for (std::size_t i = 0; i < n_kernels; ++i) queues_.push_back(this->machine_.make_queue());
  }

 private:
  using Base = device::DeviceTree<SyclMachine, Real>;
  using Batch = portable::TreeBatch<Real>;

  void launch_retrieve(const int64_t* indices, int64_t n, Real* priorities) override {
    Batch batch{};
    batch.operation = portable::kRetrieve;
    batch.sample = {this->tree(), nullptr, const_cast<int64_t*>(indices), priorities, nullptr, n,
                    false};
    run(batch, n);
  }

  void launch_draw(const Real* targets, int64_t n, bool stratified, double beta,
                   int64_t* indices, Real* priorities, float* weights) override {
    if (!(this->read(this->nodes_.data()) > 0)) {
      this->host(this->status())->empty = 1;
      return;
    }
    Batch batch{};
    batch.operation = portable::kSample;
    auto* smallest = this->at(this->least_priority());
    batch.sample = {this->tree(), targets, indices, priorities, stratified ? smallest : nullptr, n,
                    stratified};
    run(batch, n);
    if (stratified)
      this->machine_.launch(portable::WeighRows<Real>{this->at(this->status()), priorities,
                                                      smallest, weights, n, Real(beta)},
                            this->blocks(n));
  }

  void launch_change(const portable::Change<Real>& change) override {
    this->machine_.launch(portable::ClaimRows<Real>{change}, this->blocks(change.n));
    this->machine_.launch(portable::CheckRows<Real>{change}, this->blocks(change.n));
    Batch batch{};
    batch.operation = portable::kChange;
    batch.change = change;
    batch.sample.tree = this->tree();
    run(batch, change.n);
  }

  void fill(int64_t start, int64_t n, Real value) override {
    const Real so_far = portable::from_bits<Real>(this->read(this->largest_.data()));
    Batch batch{};
    batch.operation = portable::kFill;
    batch.sample.tree = this->tree();
    batch.start = start;
    batch.value = value >= 0 ? value : so_far > 0 ? so_far : Real(1);
    *this->largest_.data() = portable::to_bits(portable::most(so_far, batch.value));
    run(batch, n);
  }

  // No more items at a time than a pipe holds, the kernels in the order of the data: so none has to
  // wait for a later one, whether they run at the same time or in turn.
  void run(Batch batch, int64_t n) {
    for (batch.first = 0; batch.first < n; batch.first += pipeline_.pipe_depth) {
      batch.n = portable::least(n - batch.first, pipeline_.pipe_depth);
      run_part(batch);
    }
  }

  void run_part(const Batch& batch) {
    if (pipeline_.concurrent) this->machine_.wait();  // for what the first queue still does
    std::size_t stage = 0;
    const auto start = [&](const std::string& kernel, const auto&... arguments) {
      sycl::queue& queue = pipeline_.concurrent ? queues_[stage++] : this->machine_.queue();
      this->machine_.single_task(queue, kernel, arguments...);
    };
    start("tree_producer", batch);
    const std::size_t n_levels = levels_.size();
    for (std::size_t i = 0; i < n_levels; ++i)
      start(levels_[batch.goes_down() ? i : n_levels - 1 - i], batch.sample.tree,
            int(batch.operation), batch.n);
    start("tree_consumer", batch);
    for (sycl::queue& queue : queues_) queue.wait_and_throw();
  }

  Pipeline pipeline_;
  std::vector<std::string> levels_;  // names of their kernels
  std::vector<sycl::queue> queues_;  // one a kernel where they run at the same time
};

}  // namespace accel::sycl_backend
