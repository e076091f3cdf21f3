// The pipelines' half of OffPolicyLearner: losses and gradients of a share of the batch, in blocks of
// rows that stay in cache.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "accel/off_policy.hpp"

namespace accel {
namespace {

constexpr uint32_t kNextActions = 0, kPresentActions = 1;  // streams of noise

// Calls function(begin, n, is_first) for blocks of about equal size.
template <class Function>
void for_each_block(int64_t n_rows, Function function) {
  const int64_t n_blocks = (n_rows + kBlockRows - 1) / kBlockRows;
  for (int64_t block = 0, begin = 0; block < n_blocks; ++block) {
    const int n = int((n_rows - begin + n_blocks - block - 1) / (n_blocks - block));
    function(begin, n, block == 0);
    begin += n;
  }
}

double sum(const float* x, int n) {
  double parts[4] = {};
  for (int i = 0; i < n; ++i) parts[i % 4] += double(x[i]);
  return (parts[0] + parts[1]) + (parts[2] + parts[3]);
}

void copy(float* to, const float* from, int n) { std::memcpy(to, from, size_t(n) * sizeof(float)); }

// Columns of actions behind the observations in rows of a critic's input.
void write_columns(float* rows, int64_t row_stride, const float* columns, int stride, int n_columns,
                   int n_rows) {
  for (int j = 0; j < n_columns; ++j)
    for (int i = 0; i < n_rows; ++i) rows[i * row_stride + j] = columns[int64_t{j} * stride + i];
}

}  // namespace

void OffPolicyLearner::critic_part(Pipeline& p) {
  p.sums = {};
  for_each_block(p.n, [&](int64_t begin, int n, bool is_first) {
    critic_block(p, begin, n, is_first);
  });
}

void OffPolicyLearner::critic_block(Pipeline& p, int64_t begin, int n, bool is_first) {
  const Columns& c = p.columns;
  const int stride = round_up(n, kRowPadding);
  const float* weights = critic().parameters.data();
  gather(p, begin, n);
  next_values(p, begin, {p.next_inputs.data(), input_stride_, n});
  const Rows inputs{p.inputs.data() + begin * input_stride_, input_stride_, n};
  p.critic->forward(critic_path_, weights, inputs);
  p.critic->read_outputs(critic_path_, n, c.q, stride);
  critic_loss(p, stride);
  p.critic->backward(critic_path_, weights, critic_transposed_.data(), inputs, c.d_q, stride,
                     p.gradient.data() + actor_.size(), !is_first);
  copy(td_errors_.data() + p.first + begin, c.td_errors, n);
  p.sums.loss += sum(c.loss, n);
  p.sums.value += sum(c.value, n);
}

// Rows of the batch become the block on which the networks work.
void OffPolicyLearner::gather(Pipeline& p, int64_t begin, int n) {
  const Columns& c = p.columns;
  const int n_observations = n_observations_, n_columns = n_action_columns();
  for (int i = 0; i < n; ++i) {
    const int64_t at = p.first + begin + i;
    const int64_t row = batch_.rows != nullptr ? batch_.rows[at] : at;
    float* input = p.inputs.data() + (begin + i) * input_stride_;
    copy(input, batch_.observations + row * n_observations, n_observations);
    copy(p.next_inputs.data() + i * input_stride_, batch_.next_observations + row * n_observations,
         n_observations);
    if (is(Algorithm::dqn))
      c.actions[i] = batch_.actions[row];
    else
      copy(input + n_observations, batch_.actions + row * n_columns, n_columns);
    c.rewards[i] = batch_.rewards[row];
    c.discounts[i] = batch_.discounts[row];
    c.weights[i] = batch_.weights[at];
  }
}

// What the targets say of the next states (q_next), and of what.
void OffPolicyLearner::next_values(Pipeline& p, int64_t begin, const Rows& next) {
  const Columns& c = p.columns;
  const int stride = round_up(next.n, kRowPadding);
  if (is(Algorithm::dqn) && options_.is_double) {
    p.critic->forward(critic_path_, critic().parameters.data(), next);
    p.critic->read_outputs(critic_path_, next.n, c.chooser, stride);
  } else if (!is(Algorithm::dqn)) {
    next_actions(p, begin, next);
  }
  p.critic->forward(critic_path_, critic_target_.data(), next);
  p.critic->read_outputs(critic_path_, next.n, c.q_next, stride);
}

void OffPolicyLearner::next_actions(Pipeline& p, int64_t begin, const Rows& next) {
  const Columns& c = p.columns;
  const int stride = round_up(next.n, kRowPadding);
  const bool is_sac = is(Algorithm::sac);
  const Aligned<float>& weights = is_sac ? actor_moments_.parameters : actor_target_;
  p.actor->forward(actor_path_, weights.data(), next);
  p.actor->read_outputs(actor_path_, next.n, is_sac ? c.policy : c.chosen, stride);
  if (is_sac) {
    sample(p, begin, kNextActions, stride);
  } else if (options_.target_noise > 0) {
    draw(p, begin, kNextActions, stride);
    critic_.kernels().off_policy.smooth_actions(c.chosen, c.noise, int64_t{n_actions_} * stride,
                                                float(options_.target_noise),
                                                float(options_.noise_clip));
  }
  write_columns(p.next_inputs.data() + n_observations_, input_stride_, c.chosen, stride, n_actions_,
                next.n);
}

void OffPolicyLearner::draw(Pipeline& p, int64_t begin, uint32_t stream, int stride) {
  critic_.kernels().off_policy.normals({options_.seed, uint32_t(counters_[kSteps]), stream,
                                        uint32_t(first_row_ + p.first + begin), n_actions_, stride,
                                        p.columns.noise});
}

void OffPolicyLearner::sample(Pipeline& p, int64_t begin, uint32_t stream, int stride) {
  const Columns& c = p.columns;
  draw(p, begin, stream, stride);
  critic_.kernels().off_policy.squash({stride, n_actions_, c.policy, c.noise,
                                       float(options_.log_std_low), float(options_.log_std_high),
                                       c.chosen, c.spread, c.log_probability});
}

void OffPolicyLearner::critic_loss(Pipeline& p, int stride) {
  const Columns& c = p.columns;
  const OffPolicyKernels& kernels = critic_.kernels().off_policy;
  if (is(Algorithm::dqn))
    return kernels.dqn_loss({stride, n_critics_, c.q, options_.is_double ? c.chooser : c.q_next,
                             c.q_next, c.actions, c.rewards, c.discounts, c.weights,
                             float(options_.huber_delta), scale_, c.d_q, c.td_errors, c.loss,
                             c.value});
  kernels.critic_loss({stride, n_critics_, c.q, c.q_next,
                       is(Algorithm::sac) ? c.log_probability : nullptr, alpha(), c.rewards,
                       c.discounts, c.weights, scale_, c.d_q, c.td_errors, c.loss, c.value});
}

void OffPolicyLearner::actor_part(Pipeline& p) {
  for_each_block(p.n, [&](int64_t begin, int n, bool is_first) {
    actor_block(p, begin, n, is_first);
  });
}

void OffPolicyLearner::actor_block(Pipeline& p, int64_t begin, int n, bool is_first) {
  const Columns& c = p.columns;
  const OffPolicyKernels& kernels = critic_.kernels().off_policy;
  const bool is_sac = is(Algorithm::sac);
  const int stride = round_up(n, kRowPadding);
  const float *weights = critic().parameters.data(), *of_actor = actor_moments_.parameters.data();
  float* rows = p.inputs.data() + begin * input_stride_;
  const Rows inputs{rows, input_stride_, n};
  p.actor->forward(actor_path_, of_actor, inputs);
  p.actor->read_outputs(actor_path_, n, is_sac ? c.policy : c.chosen, stride);
  if (is_sac) sample(p, begin, kPresentActions, stride);
  write_columns(rows + n_observations_, input_stride_, c.chosen, stride, n_actions_, n);
  p.critic->forward(policy_path_, weights, inputs);
  p.critic->read_outputs(policy_path_, n, c.q, stride);
  kernels.policy_loss({stride, policy_path_.n_outputs, c.q, is_sac ? c.log_probability : nullptr,
                       alpha(), scale_, c.d_q, c.loss});
  p.critic->backward(policy_path_, weights, critic_transposed_.data(), inputs, c.d_q, stride,
                     nullptr, false);
  float* by_action = is_sac ? c.d_chosen : c.d_policy;
  p.critic->read_input_gradient(n, n_observations_, n_actions_, by_action, stride);
  if (is_sac)
    kernels.squash_gradient({stride, n_actions_, c.policy, c.chosen, c.spread,
                             float(options_.log_std_low), float(options_.log_std_high), alpha(),
                             scale_, c.d_chosen, c.d_policy});
  p.actor->backward(actor_path_, of_actor, actor_transposed_.data(), inputs, c.d_policy, stride,
                    p.gradient.data(), !is_first);
  p.sums.actor_loss += sum(c.loss, n);
  if (is_sac) p.sums.log_probability += sum(c.log_probability, n);
}

}  // namespace accel
