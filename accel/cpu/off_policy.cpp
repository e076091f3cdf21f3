#include "accel/off_policy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

namespace accel {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

int input_gradient_begin(const OffPolicyOptions& options, const Network& actor) {
  return options.algorithm == Algorithm::dqn ? -1 : actor.n_inputs;
}

}  // namespace

void OffPolicyLearner::Moments::resize(int64_t n) {
  for (Aligned<float>* values : {&parameters, &first, &second}) values->resize(size_t(n));
}

OffPolicyLearner::OffPolicyLearner(const OffPolicyOptions& options, const Network& actor,
                                   const Network& critic, const Kernels& kernels)
    : options_(options),
      actor_(actor, kernels, -1),
      critic_(critic, kernels, input_gradient_begin(options, actor)),
      actor_path_(actor, actor.n_outputs),
      critic_path_(critic, critic.n_outputs),
      policy_path_(critic, options.algorithm == Algorithm::sac ? critic.n_outputs : 1),
      n_observations_(is(Algorithm::dqn) ? critic.n_inputs : actor.n_inputs),
      n_actions_(is(Algorithm::dqn)   ? critic.n_outputs
                 : is(Algorithm::sac) ? actor.n_outputs / 2
                                      : actor.n_outputs),
      n_critics_(critic.n_outputs),
      input_stride_(odd_stride(critic.n_inputs)),
      team_(options.n_threads) {
  actor_moments_.resize(actor_.size());
  for (Moments& moments : critics_) moments.resize(critic_.size());
  actor_target_.resize(size_t(actor_.size()));
  critic_target_.resize(size_t(critic_.size()));
  actor_transposed_.resize(size_t(actor_.transposed_size()));
  critic_transposed_.resize(size_t(critic_.transposed_size()));
  squares_.resize(std::max(actor_.stretches().size(), critic_.stretches().size()));
  log_alpha_ = is(Algorithm::sac) ? float(std::log(options.initial_temperature)) : 0.0f;
  pipelines_.resize(size_t(options.n_pipelines));
  for (Pipeline& p : pipelines_) lay_out(p);
}

void OffPolicyLearner::lay_out(Pipeline& p) const {
  p.critic = std::make_unique<NetworkPass>(critic_, kBlockRows);
  if (!is(Algorithm::dqn)) p.actor = std::make_unique<NetworkPass>(actor_, kBlockRows);
  p.next_inputs.resize(size_t(kBlockRows * input_stride_));
  p.gradient.resize(size_t(actor_.size() + critic_.size()));
  p.memory.resize(size_t(8 + 4 * n_critics_ + 8 * n_actions_) * kBlockRows);
  float* next = p.memory.data();
  const auto take = [&](int n) { return std::exchange(next, next + n * kBlockRows); };
  Columns& c = p.columns;
  for (float** column : {&c.rewards, &c.discounts, &c.weights, &c.actions, &c.td_errors, &c.loss,
                         &c.value, &c.log_probability})
    *column = take(1);
  for (float** column : {&c.q, &c.q_next, &c.chooser, &c.d_q}) *column = take(n_critics_);
  for (float** column : {&c.noise, &c.chosen, &c.spread, &c.d_chosen}) *column = take(n_actions_);
  for (float** column : {&c.policy, &c.d_policy}) *column = take(2 * n_actions_);
}

float OffPolicyLearner::alpha() const { return float(std::exp(double(log_alpha_))); }

// Shares the rows out among the pipelines.
void OffPolicyLearner::begin(const Transitions& batch, int64_t first_row) {
  batch_ = batch;
  first_row_ = first_row;
  scale_ = float(1.0 / double(batch.n));
  measured_ = {kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, false};
  failed_ = false;
  stage_ = Stage::idle;  // of calls apart
  if (int64_t(td_errors_.size()) != batch.n) td_errors_.resize(size_t(batch.n));
  n_active_ = int(std::min<int64_t>(batch.n, options_.n_pipelines));
  int64_t first = 0;
  for (int i = 0; i < n_active_; ++i) {
    Pipeline& p = pipelines_[size_t(i)];
    p.first = first;
    p.n = (batch.n - first + n_active_ - i - 1) / (n_active_ - i);
    first += p.n;
    const size_t wanted = size_t(p.n * input_stride_);
    if (p.inputs.size() < wanted) p.inputs.resize(wanted);
  }
}

void OffPolicyLearner::compute_critic_gradient(const Transitions& batch, int64_t first_row) {
  begin(batch, first_row);
  team_.run(n_active_, [&](int i) { critic_part(pipelines_[size_t(i)]); });
  batch_ = {};  // the caller's arrays may go
  double loss = 0, value = 0;
  for (int i = 0; i < n_active_; ++i)
    loss += pipelines_[size_t(i)].sums.loss, value += pipelines_[size_t(i)].sums.value;
  measured_.critic_loss = loss / double(batch.n);
  measured_.mean_value = value / double(batch.n);
}

void OffPolicyLearner::compute_actor_gradient() {
  team_.run(n_active_, [&](int i) { actor_part(pipelines_[size_t(i)]); });
  double loss = 0, log_probability = 0;
  for (int i = 0; i < n_active_; ++i) {
    loss += pipelines_[size_t(i)].sums.actor_loss;
    log_probability += pipelines_[size_t(i)].sums.log_probability;
  }
  const double n = double(td_errors_.size());
  measured_.actor_loss = loss / n;
  if (!is(Algorithm::sac)) return;
  measured_.entropy = -log_probability / n;
  measured_.temperature = double(alpha());
}

// Adds up the pipelines' gradients in their order; returns the norm.
double OffPolicyLearner::reduce(const PackedNetwork& network, int64_t offset, int n_sets) {
  std::vector<float*> sets;
  for (int i = 0; i < n_sets; ++i)
    sets.push_back(pipelines_[size_t(i)].gradient.data() + offset);
  const std::vector<Stretch>& stretches = network.stretches();
  team_.run(int(stretches.size()), [&](int i) {
    const Stretch& s = stretches[size_t(i)];
    const OffPolicyKernels& kernels = network.kernels().off_policy;
    squares_[size_t(i)] = kernels.sum_sets(sets.data(), n_sets, s.begin, s.size);
  });
  double squares = 0;
  for (size_t i = 0; i < stretches.size(); ++i) squares += squares_[i];
  return std::sqrt(squares);
}

Measured OffPolicyLearner::learn(const Transitions& batch) {
  compute_critic_gradient(batch, 0);
  step_critic(reduce(critic_, actor_.size(), n_active_));
  double norm = 0, by_log_alpha = 0;
  if (has_actor_step() && !failed_) {
    compute_actor_gradient();
    norm = reduce(actor_, 0, n_active_);
    by_log_alpha = measured_.entropy - options_.target_entropy;
  }
  return finish(norm, by_log_alpha);
}

void OffPolicyLearner::critic_gradient(const Transitions& batch, int64_t first_row, float* flat) {
  compute_critic_gradient(batch, first_row);
  reduce(critic_, actor_.size(), n_active_);
  critic_.unpack(pipelines_[0].gradient.data() + actor_.size(), flat);
  // All ranks must see a loss that is not finite on one of them.
  if (!std::isfinite(measured_.critic_loss)) std::fill(flat, flat + n_critic(), float(kNaN));
  stage_ = Stage::critic_gradient;
}

void OffPolicyLearner::apply_critic(const float* flat) {
  if (stage_ != Stage::critic_gradient)
    throw std::invalid_argument("apply_critic must follow critic_gradient");
  critic_.pack(flat, pipelines_[0].gradient.data() + actor_.size());
  const double norm = reduce(critic_, actor_.size(), 1);
  const double loss = measured_.critic_loss;
  if (!std::isfinite(loss)) measured_.critic_loss = 0;  // the gradient decides, alike on all ranks
  step_critic(norm);
  measured_.critic_loss = loss;
  stage_ = Stage::critic_applied;
}

int64_t OffPolicyLearner::n_actor_gradient() const {
  return has_actor_step() && !failed_ ? n_actor() + (is(Algorithm::sac) ? 1 : 0) : 0;
}

void OffPolicyLearner::actor_gradient(const float* observations, float* flat) {
  if (stage_ != Stage::critic_applied)
    throw std::invalid_argument("actor_gradient must follow apply_critic");
  if (n_actor_gradient() == 0) return;
  for (int i = 0; i < n_active_ && observations != nullptr; ++i) {
    Pipeline& p = pipelines_[size_t(i)];
    for (int64_t row = 0; row < p.n; ++row)
      std::copy_n(observations + (p.first + row) * n_observations_, n_observations_,
                  p.inputs.data() + row * input_stride_);
  }
  for (int i = 0; i < n_active_; ++i)
    pipelines_[size_t(i)].sums.actor_loss = pipelines_[size_t(i)].sums.log_probability = 0;
  compute_actor_gradient();
  reduce(actor_, 0, n_active_);
  actor_.unpack(pipelines_[0].gradient.data(), flat);
  if (is(Algorithm::sac)) flat[n_actor()] = float(measured_.entropy - options_.target_entropy);
  if (!std::isfinite(measured_.actor_loss)) std::fill(flat, flat + n_actor_gradient(), float(kNaN));
}

Measured OffPolicyLearner::apply_actor(const float* flat) {
  if (stage_ != Stage::critic_applied)
    throw std::invalid_argument("apply_actor must follow apply_critic");
  stage_ = Stage::idle;
  if (n_actor_gradient() == 0) return finish(0, 0);
  actor_.pack(flat, pipelines_[0].gradient.data());
  const double loss = measured_.actor_loss;
  if (!std::isfinite(loss)) measured_.actor_loss = 0;
  const double by_log_alpha = is(Algorithm::sac) ? double(flat[n_actor()]) : 0;
  Measured measured = finish(reduce(actor_, 0, 1), by_log_alpha);
  measured.actor_loss = loss;
  return measured;
}

void OffPolicyLearner::step_critic(double norm) {
  measured_.critic_gradient_norm = norm;
  failed_ = !std::isfinite(norm) || !std::isfinite(measured_.critic_loss);
  if (failed_) return;
  // A step that can't fail any more needs no way back.
  const int back = has_actor_step() ? 1 - front_ : front_;
  step(critic_, options_.critic, ++counters_[kCriticSteps], norm,
       pipelines_[0].gradient.data() + actor_.size(), critics_[size_t(front_)],
       critics_[size_t(back)], critic_transposed_.data());
  front_ = back;
}

void OffPolicyLearner::restore_critic() {
  front_ = 1 - front_;
  --counters_[kCriticSteps];
  transpose_all();
}

// The actor's and the temperature's step, and the targets'; counts the step.
Measured OffPolicyLearner::finish(double norm, double by_log_alpha) {
  if (has_actor_step() && !failed_) {
    measured_.actor_gradient_norm = norm;
    const double loss = measured_.actor_loss;
    if (!std::isfinite(norm) || !std::isfinite(loss) ||
        (is(Algorithm::sac) && !std::isfinite(by_log_alpha))) {
      failed_ = true;
      restore_critic();
    } else {
      step(actor_, options_.actor, ++counters_[kActorSteps], norm, pipelines_[0].gradient.data(),
           actor_moments_, actor_moments_, actor_transposed_.data());
      if (is(Algorithm::sac)) step_temperature(by_log_alpha);
    }
  }
  if (!failed_ && is_due()) move_targets();
  measured_.applied = !failed_;
  ++counters_[kSteps];
  if (failed_) ++counters_[kSkipped];
  return measured_;
}

void OffPolicyLearner::step(const PackedNetwork& network, const AdamOptions& o, int64_t n_steps,
                            double norm, const float* gradient, Moments& from, Moments& to,
                            float* transposed) {
  const double correction1 = 1.0 - std::pow(o.beta1, double(n_steps));
  const double correction2 = 1.0 - std::pow(o.beta2, double(n_steps));
  FloatAdam adam{};
  adam.clip_factor = float(std::min(1.0, o.max_gradient_norm / (norm + 1e-6)));
  adam.rest1 = float(1.0 - o.beta1);
  adam.beta2 = float(o.beta2), adam.rest2 = float(1.0 - o.beta2);
  adam.step_size = float(o.learning_rate / correction1);
  adam.root_factor = float(1.0 / std::sqrt(correction2)), adam.epsilon = float(o.epsilon);
  const std::vector<Stretch>& stretches = network.stretches();
  team_.run(int(stretches.size()), [&](int i) {
    const Stretch& s = stretches[size_t(i)];
    FloatAdam part = adam;
    part.n = s.size;
    part.gradient = gradient + s.begin;
    part.parameters = from.parameters.data() + s.begin;
    part.first_moment = from.first.data() + s.begin;
    part.second_moment = from.second.data() + s.begin;
    part.new_parameters = to.parameters.data() + s.begin;
    part.new_first = to.first.data() + s.begin;
    part.new_second = to.second.data() + s.begin;
    network.kernels().off_policy.adam(part);
    network.transpose(s, to.parameters.data(), transposed);
  });
}

void OffPolicyLearner::step_temperature(double gradient) {
  const AdamOptions& o = options_.temperature;
  const double n_steps = double(++counters_[kTemperatureSteps]);
  const double factor = std::min(1.0, o.max_gradient_norm / (std::abs(gradient) + 1e-6));
  const double g = gradient * factor;
  log_alpha_first_ = float(o.beta1 * double(log_alpha_first_) + (1 - o.beta1) * g);
  log_alpha_second_ = float(o.beta2 * double(log_alpha_second_) + (1 - o.beta2) * g * g);
  const double root = std::sqrt(double(log_alpha_second_) / (1 - std::pow(o.beta2, n_steps)));
  const double size = o.learning_rate / (1 - std::pow(o.beta1, n_steps));
  log_alpha_ -= float(size * double(log_alpha_first_) / (root + o.epsilon));
}

void OffPolicyLearner::move_targets() {
  const float rate = float(options_.target_rate);
  const auto move = [&](const PackedNetwork& network, Aligned<float>& to, const Moments& from) {
    const std::vector<Stretch>& stretches = network.stretches();
    team_.run(int(stretches.size()), [&](int i) {
      const Stretch& s = stretches[size_t(i)];
      network.kernels().off_policy.move_towards(
          to.data() + s.begin, from.parameters.data() + s.begin, rate, s.size);
    });
  };
  move(critic_, critic_target_, critic());
  if (is(Algorithm::td3)) move(actor_, actor_target_, actor_moments_);
}

void OffPolicyLearner::transpose_all() {
  for (const Stretch& s : actor_.stretches())
    actor_.transpose(s, actor_moments_.parameters.data(), actor_transposed_.data());
  for (const Stretch& s : critic_.stretches())
    critic_.transpose(s, critic().parameters.data(), critic_transposed_.data());
}

OffPolicyState OffPolicyLearner::state() const {
  OffPolicyState s;
  s.targets.resize(size_t(n_targets()));
  for (std::vector<float>* values : {&s.parameters, &s.first_moment, &s.second_moment})
    values->resize(size_t(n_parameters()));
  const auto read = [&](std::vector<float>& to, const Aligned<float>& actor,
                        const Aligned<float>& critics, float log_alpha) {
    actor_.unpack(actor.data(), to.data());
    critic_.unpack(critics.data(), to.data() + n_actor());
    if (is(Algorithm::sac)) to.back() = log_alpha;
  };
  read(s.parameters, actor_moments_.parameters, critic().parameters, log_alpha_);
  read(s.first_moment, actor_moments_.first, critic().first, log_alpha_first_);
  read(s.second_moment, actor_moments_.second, critic().second, log_alpha_second_);
  const int64_t n_target_actor = n_targets() - n_critic();
  if (n_target_actor > 0) actor_.unpack(actor_target_.data(), s.targets.data());
  critic_.unpack(critic_target_.data(), s.targets.data() + n_target_actor);
  s.counters = counters_;
  return s;
}

void OffPolicyLearner::load_state(const OffPolicyState& s) {
  load_parameters(s.parameters.data(), s.targets.data());
  actor_.pack(s.first_moment.data(), actor_moments_.first.data());
  actor_.pack(s.second_moment.data(), actor_moments_.second.data());
  critic_.pack(s.first_moment.data() + n_actor(), critic().first.data());
  critic_.pack(s.second_moment.data() + n_actor(), critic().second.data());
  log_alpha_first_ = is(Algorithm::sac) ? s.first_moment.back() : 0.0f;
  log_alpha_second_ = is(Algorithm::sac) ? s.second_moment.back() : 0.0f;
  counters_ = s.counters;
}

void OffPolicyLearner::load_parameters(const float* flat, const float* targets) {
  stage_ = Stage::idle;
  actor_.pack(flat, actor_moments_.parameters.data());
  critic_.pack(flat + n_actor(), critic().parameters.data());
  if (is(Algorithm::sac)) log_alpha_ = flat[n_parameters() - 1];
  if (targets == nullptr) targets = is(Algorithm::td3) ? flat : flat + n_actor();
  if (is(Algorithm::td3)) actor_.pack(targets, actor_target_.data());
  critic_.pack(targets + (n_targets() - n_critic()), critic_target_.data());
  transpose_all();
}

}  // namespace accel
