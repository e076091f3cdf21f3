// Host side of a device's off-policy learner: memory, transfers, which kernels make up a step.
//
// A whole step is the same launches each time, on the same memory; only what the batch's place says
// differs. So a machine may record it once for each number of rows and replay it (CUDA graphs).
#pragma once

#include <algorithm>
#include <cmath>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "accel/device/finish.hpp"
#include "accel/device/learner_layout.hpp"
#include "accel/portable/losses.hpp"
#include "accel/portable/optimiser.hpp"

namespace accel {
namespace device {

using portable::kActor;
using portable::kCritic;

template <class Machine>
class DeviceLearner : public virtual Learner {
 public:
  DeviceLearner(Machine machine, const LearnerOptions& options, const Network& actor,
                const Network& critic)
      : machine_(std::move(machine)), options_(options), actor_(actor), critic_(critic) {
    lay_out();
    const Lock lock(*this);
    set_temperature();
    make_room(1);
  }
  ~DeviceLearner() override { finish(machine_); }

  std::string device() const override { return machine_.name(); }
  const Network& actor() const override { return actor_; }
  const Network& critic() const override { return critic_; }
  portable::Algorithm algorithm() const override { return options_.numbers.algorithm; }
  int64_t n_parameters() const override { return view_.n_parameters; }
  int64_t n_targets() const override { return view_.n_targets; }
  int n_observations() const override { return view_.n_observations; }
  int n_actions() const override { return has_actor() ? view_.n_actions : critic_.n_outputs; }
  int64_t n_steps() override {
    const Lock lock(*this);
    return n_steps_;
  }

  int64_t n_skipped() override {
    const Lock lock(*this);
    int64_t n = 0;
    machine_.get(&n, view_.counters + portable::kSkipped, 1);
    return n;
  }

  StepMeasures learn(const HostBatch& batch) override {
    const Lock lock(*this);
    stage(batch);
    return step();
  }

  std::vector<float> critic_gradient(const HostBatch& batch) override {
    const Lock lock(*this);
    stage(batch);
    launch_gradient(kCritic);
    stage_ = Stage::critic_gradient;
    return read(view_.gradient + actor_.n_weights, critic_.n_weights);
  }

  void apply_critic(const float* gradient) override {
    const Lock lock(*this);
    expect(Stage::critic_gradient, "critic_gradient must come before apply_critic");
    machine_.put(view_.gradient + actor_.n_weights, gradient, size_t(critic_.n_weights));
    launch_apply(kCritic, false);
    stage_ = Stage::critic_applied;
  }

  int64_t n_batch_rows() override {
    const Lock lock(*this);
    return view_.n_rows;
  }

  std::vector<float> actor_gradient(const float* observations) override {
    const Lock lock(*this);
    expect(Stage::critic_applied, "apply_critic must come before actor_gradient");
    if (!is_actor_due() || has_failed()) return {};
    if (observations != nullptr)
      machine_.put(device<float>(at_.observations), observations,
                   size_t(view_.n_rows) * size_t(view_.n_observations));
    launch_gradient(kActor);
    std::vector<float> gradient = read(view_.gradient, actor_.n_weights);
    if (view_.is_sac()) gradient.push_back(read(log_alpha_gradient(), 1)[0]);
    return gradient;
  }

  int64_t n_actor_gradient() override {
    const Lock lock(*this);
    expect(Stage::critic_applied, "apply_critic must come before apply_actor");
    if (!is_actor_due() || has_failed()) return 0;
    return actor_.n_weights + (view_.is_sac() ? 1 : 0);
  }

  StepMeasures apply_actor(const float* gradient) override {
    const Lock lock(*this);
    expect(Stage::critic_applied, "apply_critic must come before apply_actor");
    if (is_actor_due() && !has_failed()) {
      machine_.put(view_.gradient, gradient, size_t(actor_.n_weights));
      if (view_.is_sac()) machine_.put(log_alpha_gradient(), gradient + actor_.n_weights, 1);
      launch_apply(kActor, false);
    }
    launch_end(false);
    return end_step();
  }

  LearnerState state() override {
    const Lock lock(*this);
    LearnerState state{read(view_.parameters, view_.n_parameters),
                       read(view_.targets, view_.n_targets),
                       read(view_.first_moment, view_.n_parameters),
                       read(view_.second_moment, view_.n_parameters),
                       std::vector<int64_t>(portable::kCounters)};
    machine_.get(state.counters.data(), view_.counters, state.counters.size());
    return state;
  }

  void load_state(const LearnerState& state) override {
    const Lock lock(*this);
    write(view_.parameters, state.parameters);
    write(view_.targets, state.targets);
    write(view_.first_moment, state.first_moment);
    write(view_.second_moment, state.second_moment);
    machine_.put(view_.counters, state.counters.data(), state.counters.size());
    n_steps_ = state.counters[portable::kSteps];
    discard();
  }

  void load_parameters(const float* flat, const float* targets) override {
    const Lock lock(*this);
    machine_.put(view_.parameters, flat, size_t(view_.n_parameters));
    const float* from = targets != nullptr ? targets : flat + view_.first_target();
    machine_.put(view_.targets, from, size_t(view_.n_targets));
    discard();
  }

 protected:
  class Lock {
   public:
    explicit Lock(DeviceLearner& learner) : guard_(learner.mutex_) { learner.machine_.use(); }

   private:
    std::lock_guard<std::mutex> guard_;
  };

  template <class T>
  using Buffer = typename Machine::template Buffer<T>;

  enum class Stage { idle, critic_gradient, critic_applied };

  bool has_actor() const { return view_.has_actor(); }
  bool is_due() const { return (n_steps_ + 1) % options_.interval == 0; }
  bool is_actor_due() const { return has_actor() && is_due(); }
  float* log_alpha_gradient() const { return view_.gradient + view_.n_parameters - 1; }

  void expect(Stage stage, const char* rule) const {
    if (stage_ != stage) throw std::invalid_argument(rule);
  }

  // Memory that does not depend on the batch.
  void lay_out() {
    const bool is_sac = options_.numbers.algorithm == portable::Algorithm::sac;
    view_.numbers = options_.numbers;
    view_.n_pipelines = options_.n_pipelines;
    view_.n_actions = is_sac ? actor_.n_outputs / 2 : actor_.n_outputs;
    view_.n_observations = has_actor() ? actor_.n_inputs : critic_.n_inputs;
    view_.n_parameters = actor_.n_weights + critic_.n_weights + (is_sac ? 1 : 0);
    view_.n_longest = std::max(actor_.n_weights, critic_.n_weights);
    actor_layers_ = put_layers(actor_, view_.actor);
    critic_layers_ = put_layers(critic_, view_.critic);
    view_.n_targets = actor_.n_weights + critic_.n_weights - view_.first_target();
    view_.n_aggregators = int(std::clamp<int64_t>(view_.n_longest / 1024, 1, 128));
    counters_ = machine_.template allocate<int64_t>(portable::kCounters);
    squares_ = machine_.template allocate<portable::Wide>(size_t(view_.n_aggregators));
    view_.counters = counters_.data();
    view_.squares = squares_.data();
    lay_out_parameters();
  }

  void lay_out_parameters() {
    const size_t n = size_t(view_.n_parameters);
    const size_t n_pipeline = size_t(view_.n_pipelines) * size_t(view_.n_longest);
    floats_ = machine_.template allocate<float>(7 * n + size_t(view_.n_targets) + n_pipeline);
    float* next = floats_.data();
    for (float** array : {&view_.parameters, &view_.first_moment, &view_.second_moment,
                          &view_.next_parameters, &view_.next_first, &view_.next_second,
                          &view_.gradient}) {
      *array = next;
      next += n;
    }
    view_.targets = next;
    view_.pipeline_gradients = next + view_.n_targets;
  }

  Buffer<portable::LayerView> put_layers(const Network& network, portable::NetworkView& view) {
    const std::vector<portable::LayerView> layers = describe(network, view);
    auto buffer = machine_.template allocate<portable::LayerView>(layers.size() + 1);
    machine_.put(buffer.data(), layers.data(), layers.size());
    view.layers = buffer.data();
    return buffer;
  }

  void set_temperature() {
    if (!view_.is_sac()) return;
    const float log_alpha = std::log(options_.initial_temperature);
    for (float* p : {view_.parameters, view_.next_parameters})
      machine_.put(p + view_.n_parameters - 1, &log_alpha, 1);
  }

  // Room for batches of n rows; where memory is short, what was there stays.
  void make_room(int64_t n) {
    if (n <= n_room_) return;
    const int64_t share = (n + view_.n_pipelines - 1) / view_.n_pipelines;
    const portable::Scratch layout(view_, nullptr, int(share));
    auto scratch = machine_.template allocate<float>(size_t(layout.n_floats) *
                                                     size_t(view_.n_pipelines));
    auto rows = machine_.template allocate<float>(3 * size_t(n));
    auto mirror = machine_.mirror(BatchLayout(view_, n).end);
    machine_.forget();
    scratch_ = std::move(scratch);
    rows_ = std::move(rows);
    mirror_ = std::move(mirror);
    n_room_ = n;
    view_.scratch = scratch_.data();
    view_.scratch_floats = layout.n_floats;
    view_.losses = rows_.data();
    view_.values = view_.losses + n;
    view_.log_probabilities = view_.values + n;
  }

  // Everything lies where the largest batch so far needs it, so that memory is laid out once.
  void place(int64_t n) {
    machine_.wait_for_push();
    make_room(n);
    at_ = BatchLayout(view_, n_room_);
    view_.n_rows = int(n);
    view_.batch = device<portable::BatchPlace>(at_.place);
    view_.outcome = device<portable::Outcome>(at_.outcome);
    view_.td_errors = device<float>(at_.td_errors);
  }

  template <class T>
  T* host(size_t at) { return reinterpret_cast<T*>(mirror_.host() + at); }
  template <class T>
  T* device(size_t at) { return reinterpret_cast<T*>(mirror_.device() + at); }

  void copy_rows(const HostBatch& batch, const float* from, int64_t n_columns, size_t at) {
    float* to = host<float>(at);
    for (int64_t r = 0; r < batch.n; ++r) {
      const int64_t row = batch.rows == nullptr ? r : batch.rows[r];
      std::copy_n(from + row * n_columns, n_columns, to + r * n_columns);
    }
  }

  void stage(const HostBatch& batch) {
    place(batch.n);
    copy_rows(batch, batch.observations, view_.n_observations, at_.observations);
    copy_rows(batch, batch.actions, at_.n_action_columns, at_.actions);
    copy_rows(batch, batch.rewards, 1, at_.rewards);
    copy_rows(batch, batch.next_observations, view_.n_observations, at_.next_observations);
    copy_rows(batch, batch.discounts, 1, at_.discounts);
    std::copy_n(batch.weights, batch.n, host<float>(at_.weights));
    begin({device<float>(at_.observations), device<float>(at_.actions),
           device<float>(at_.rewards), device<float>(at_.next_observations),
           device<float>(at_.discounts), device<float>(at_.weights), nullptr, batch.n,
           batch.first_row},
          0);
  }

  // A step begins: tell the device where the batch lies, and that nothing is measured yet.
  void begin(const portable::BatchPlace& batch, size_t push_from) {
    *host<portable::BatchPlace>(at_.place) = batch;
    *host<portable::Outcome>(at_.outcome) = unmeasured();
    machine_.push(mirror_, push_from, at_.td_errors);
    if (stage_ == Stage::critic_applied) discard();
    stage_ = Stage::idle;
  }

  StepMeasures step() {
    launch_step();
    return end_step();
  }

  // A device with another way to do these does so.
  virtual void launch_step() {
    const std::string key = std::to_string(view_.n_rows) + (is_due() ? " due" : "");
    machine_.replay(key, [this] {
      launch_gradient(kCritic);
      launch_adam(kCritic);
      if (is_actor_due()) {
        launch_gradient(kActor);
        launch_adam(kActor);
      }
      launch_end(false);
    });
  }

  virtual void launch_gradient(portable::Part part) {
    if (part == kCritic)
      machine_.launch(portable::CriticGradient{view_}, view_.n_pipelines);
    else
      machine_.launch(portable::ActorGradient{view_}, view_.n_pipelines);
    machine_.launch(portable::AggregateGradient{view_, part, true}, view_.n_aggregators);
  }

  void launch_adam(portable::Part part) {
    machine_.launch(portable::AdamStep{view_, part}, view_.n_aggregators);
  }

  void launch_apply(portable::Part part, bool from_pipelines) {
    machine_.launch(portable::AggregateGradient{view_, part, from_pipelines},
                    view_.n_aggregators);
    launch_adam(part);
  }

  void launch_end(bool discards) {
    machine_.launch(portable::EndStep{view_, is_due(), discards}, view_.n_aggregators);
  }

  StepMeasures end_step() {
    ++n_steps_;
    stage_ = Stage::idle;
    return measures();
  }

  StepMeasures measures() {
    machine_.pull(mirror_, at_.outcome, at_.td_errors + size_t(view_.n_rows) * sizeof(float));
    const float* errors = host<float>(at_.td_errors);
    return {*host<portable::Outcome>(at_.outcome),
            std::vector<float>(errors, errors + view_.n_rows)};
  }

  bool has_failed() {
    machine_.pull(mirror_, at_.outcome, at_.td_errors);
    return host<portable::Outcome>(at_.outcome)->failed[kCritic] != 0;
  }

  // Forget a step that was begun: what is new becomes what is there.
  void discard() {
    place(view_.n_rows);
    launch_end(true);
    machine_.wait();
    stage_ = Stage::idle;
  }

  std::vector<float> read(const float* from, int64_t n) {
    std::vector<float> values(static_cast<size_t>(n));
    machine_.get(values.data(), from, values.size());
    return values;
  }
  void write(float* to, const std::vector<float>& values) {
    machine_.put(to, values.data(), values.size());
  }

  std::mutex mutex_;
  Machine machine_;
  LearnerOptions options_;
  Network actor_, critic_;
  portable::LearnerView view_{};
  Buffer<portable::LayerView> actor_layers_, critic_layers_;
  Buffer<float> floats_, scratch_, rows_;
  Buffer<int64_t> counters_;
  Buffer<portable::Wide> squares_;
  typename Machine::Mirror mirror_;
  BatchLayout at_;
  int64_t n_room_ = 0;   // rows of the largest batch so far
  int64_t n_steps_ = 0;  // as the device counts
  Stage stage_ = Stage::idle;
};

}  // namespace device
}  // namespace accel
