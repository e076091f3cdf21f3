// Losses of DQN, DDPG, TD3 and SAC and their gradients, one pipeline a block: see accel.interfaces for
// the equations.
#pragma once

#include "accel/portable/atomic.hpp"
#include "accel/portable/learner.hpp"
#include "accel/portable/philox.hpp"

namespace accel {
namespace portable {

constexpr float kHalfLogTwoPi = 0.9189385332f, kLogTwo = 0.6931471806f;

ACCEL_DEVICE inline float not_a_number() { return from_bits<float>(0x7fc00000); }

// One pipeline at work: its rows, its memory.
struct Pipeline {
  const LearnerView& view;
  Share share;
  Scratch memory;
  float* gradient;  // (n_longest,)

  ACCEL_DEVICE Pipeline(const LearnerView& v, int index)
      : view(v),
        share(index, v.n_pipelines, v.n_rows),
        memory(v, v.scratch + index * v.scratch_floats, share.n),
        gradient(v.pipeline_gradients + index * v.n_longest) {}

  ACCEL_DEVICE int64_t row(int r) const {  // of the batch's arrays; 0 for one that is not there
    const int64_t row = view.batch->rows == nullptr ? share.first + r
                                                    : view.batch->rows[share.first + r];
    return row >= 0 && row < view.batch->n_kept ? row : 0;
  }
  // NaN for a row that is not there, so that the step is not applied.
  ACCEL_DEVICE float weight(int r) const {
    if (view.batch->rows != nullptr && row(r) != view.batch->rows[share.first + r])
      return not_a_number();
    return view.batch->weights[share.first + r];
  }
  ACCEL_DEVICE Normals normals(int r, int q, uint32_t stream) const {
    return draw_normals(view.numbers.seed, uint32_t(view.batch->first_row + share.first + r),
                        uint32_t(q), uint32_t(view.counters[kSteps]), stream);
  }
};

// The batch's rows into (n, n_columns) of `to`, rows `stride` apart.
template <class Block>
ACCEL_DEVICE inline void gather(Block& block, const Pipeline& p, const float* from, int n_columns,
                                float* to, int stride) {
  parallel(block, p.share.n * n_columns, [&](int e) {
    const int r = e / n_columns, column = e % n_columns;
    to[int64_t(r) * stride + column] = from[p.row(r) * n_columns + column];
  });
}

// The critics' inputs: states beside actions.
template <class Block>
ACCEL_DEVICE inline void join(Block& block, const Pipeline& p) {
  const int n_states = p.view.n_observations, n_actions = p.view.n_actions;
  const int n = n_states + n_actions;
  parallel(block, p.share.n * n, [&](int e) {
    const int r = e / n, column = e % n;
    p.memory.inputs[e] = column < n_states ? p.memory.states[int64_t(r) * n_states + column]
                                           : p.memory.actions[r * n_actions + column - n_states];
  });
  block.barrier();
}

// SAC: u = m + exp(l) noise, a = tanh(u), log pi(a) for one row.
ACCEL_DEVICE inline float squash_row(const Pipeline& p, int r, uint32_t stream) {
  const int n = p.view.n_actions;
  const float* outputs = p.memory.actor_outputs + int64_t(r) * 2 * n;
  Normals noise{};
  float log_probability = 0.0f;
  for (int d = 0; d < n; ++d) {
    if (d % 4 == 0) noise = p.normals(r, d / 4, stream);
    const float z = noise.value[d % 4];
    const float log_std = clamp_(outputs[n + d], p.view.numbers.low, p.view.numbers.high);
    const float spread = exp_(log_std) * z, u = outputs[d] + spread;
    // log(1 - tanh^2 u), accurate where tanh u rounds to 1
    const float log_slope = 2.0f * (kLogTwo - abs_(u) - log1p_(exp_(-2.0f * abs_(u))));
    log_probability += -0.5f * z * z - log_std - kHalfLogTwoPi - log_slope;
    p.memory.actions[r * n + d] = tanh_(u);
    p.memory.spreads[r * n + d] = spread;
  }
  return log_probability;
}

// TD3: target policy smoothing (Fujimoto et al. 2018, equation 14).
ACCEL_DEVICE inline void smooth_row(const Pipeline& p, int r) {
  const int n = p.view.n_actions;
  const float size = p.view.numbers.target_noise, limit = p.view.numbers.noise_clip;
  Normals noise{};
  for (int d = 0; d < n; ++d) {
    float action = p.memory.actor_outputs[r * n + d];
    if (size > 0.0f) {
      if (d % 4 == 0) noise = p.normals(r, d / 4, kNextActions);
      action = clamp_(action + clamp_(size * noise.value[d % 4], -limit, limit), -1.0f, 1.0f);
    }
    p.memory.actions[r * n + d] = action;
  }
}

// Column of the least value, the first of equals; one that is no number counts as the least.
ACCEL_DEVICE inline int column_of_least(const float* q, int n) {
  int best = 0;
  for (int k = 1; k < n; ++k)
    if (q[best] == q[best] && !(q[k] >= q[best])) best = k;
  return best;
}

ACCEL_DEVICE inline int column_of_most(const float* q, int n) {
  int best = 0;
  for (int k = 1; k < n; ++k)
    if (q[best] == q[best] && !(q[k] <= q[best])) best = k;
  return best;
}

// y = r + discount V'(s'), V' of DQN: Q'(s', argmax).
template <class Block>
ACCEL_DEVICE inline void learn_from_best(Block& block, const Pipeline& p) {
  const LearnerView& v = p.view;
  const Scratch& m = p.memory;
  const int n_actions = v.critic.n_outputs;
  forward(block, v.critic, v.target_critic(), m.states, p.share.n, m.critic_made,
          m.critic_outputs);
  const float* judge = m.critic_outputs;
  if (v.numbers.is_double) {
    forward(block, v.critic, v.parameters, m.states, p.share.n, m.critic_made, m.critic_d_outputs);
    judge = m.critic_d_outputs;
  }
  parallel(block, p.share.n, [&](int r) {
    const int best = column_of_most(judge + r * n_actions, n_actions);
    m.learnt[r] = v.batch->rewards[p.row(r)] +
                  v.batch->discounts[p.row(r)] * m.critic_outputs[r * n_actions + best];
  });
}

// The same for TD3 and SAC: the least target critic at the actor's next action.
template <class Block>
ACCEL_DEVICE inline void learn_from_least(Block& block, const Pipeline& p) {
  const LearnerView& v = p.view;
  const Scratch& m = p.memory;
  const int n_critics = v.critic.n_outputs;
  forward(block, v.actor, v.is_sac() ? v.parameters : v.targets, m.states, p.share.n, m.actor_made,
          m.actor_outputs);
  parallel(block, p.share.n, [&](int r) {
    m.learnt[r] = 0.0f;
    if (v.is_sac())
      m.learnt[r] = -v.alpha() * squash_row(p, r, kNextActions);
    else
      smooth_row(p, r);
  });
  block.barrier();
  join(block, p);
  forward(block, v.critic, v.target_critic(), m.inputs, p.share.n, m.critic_made,
          m.critic_outputs);
  parallel(block, p.share.n, [&](int r) {
    const float* q = m.critic_outputs + r * n_critics;
    const float value = q[column_of_least(q, n_critics)] + m.learnt[r];
    m.learnt[r] = v.batch->rewards[p.row(r)] + v.batch->discounts[p.row(r)] * value;
  });
}

struct Huber {
  float delta;
  ACCEL_DEVICE float loss(float e) const {
    const float size = abs_(e);
    return size > delta ? delta * (size - 0.5f * delta) : 0.5f * e * e;
  }
  ACCEL_DEVICE float slope(float e) const { return clamp_(e, -delta, delta); }
};

// Column of the action taken, -1 where it is none of them.
ACCEL_DEVICE inline int column_taken(const Pipeline& p, int r) {
  const float action = p.view.batch->actions[p.row(r)];
  const bool is_column = action >= 0.0f && action < float(p.view.critic.n_outputs);
  return is_column && float(int(action)) == action ? int(action) : -1;
}

// Loss, value and error of one row, and the gradient by the critics' outputs.
ACCEL_DEVICE inline void judge_row(const Pipeline& p, int r) {
  const LearnerView& v = p.view;
  const int n = v.critic.n_outputs, taken = v.has_actor() ? 0 : column_taken(p, r);
  const float* q = p.memory.critic_outputs + r * n;
  float* d = p.memory.critic_d_outputs + r * n;
  const Huber huber{v.numbers.huber_delta};
  const float weight = taken < 0 ? not_a_number() : p.weight(r);
  const int n_critics = v.has_actor() ? n : 1;
  float loss = 0.0f, value = 0.0f, size = 0.0f;
  for (int k = 0; k < n; ++k) {
    d[k] = 0.0f;
    if (!v.has_actor() && k != taken) continue;
    const float error = q[k] - p.memory.learnt[r];
    loss += weight * huber.loss(error);
    value += q[k];
    size += abs_(error);
    d[k] = weight * huber.slope(error) / float(v.n_rows);
  }
  // Also where the gradient stays finite or is cut off: nobody shall apply it.
  if (!finite_(loss) || taken < 0) d[0] = not_a_number();
  const int at = p.share.first + r;
  v.losses[at] = taken < 0 ? not_a_number() : loss;
  v.values[at] = value / float(n_critics);
  v.td_errors[at] = size / float(n_critics);
}

// Each pipeline's gradient by the critics' weights.
struct CriticGradient {
  static constexpr const char* kName = "critic_gradient";
  static constexpr int kThreads = kLearnerThreads;
  LearnerView view;

  template <class Block>
  ACCEL_DEVICE void operator()(Block& block) const {
    const Pipeline p(view, block.index());
    const Scratch& m = p.memory;
    const int n_states = view.n_observations;
    gather(block, p, view.batch->next_observations, n_states, m.states, n_states);
    block.barrier();
    if (view.has_actor())
      learn_from_least(block, p);
    else
      learn_from_best(block, p);
    block.barrier();
    gather(block, p, view.batch->observations, n_states, m.states, n_states);
    if (view.has_actor())
      gather(block, p, view.batch->actions, view.n_actions, m.actions, view.n_actions);
    block.barrier();
    if (view.has_actor()) join(block, p);
    const float* inputs = view.has_actor() ? m.inputs : m.states;
    const float* weights = view.parameters + view.actor.n_weights;
    forward(block, view.critic, weights, inputs, p.share.n, m.critic_made, m.critic_outputs);
    parallel(block, p.share.n, [&](int r) { judge_row(p, r); });
    block.barrier();
    backward(block, view.critic, weights, inputs, p.share.n, m.critic_made, m.critic_d_outputs,
             m.critic_d_made, p.gradient, static_cast<float*>(nullptr));
  }
};

// Actor's loss of one row at the critics' values, and its gradient by them.
ACCEL_DEVICE inline void value_action(const Pipeline& p, int r) {
  const LearnerView& v = p.view;
  const int n = v.critic.n_outputs, at = p.share.first + r;
  const float* q = p.memory.critic_outputs + r * n;
  float* d = p.memory.critic_d_outputs + r * n;
  const int column = v.is_sac() ? column_of_least(q, n) : 0;
  for (int k = 0; k < n; ++k) d[k] = k == column ? -1.0f / float(v.n_rows) : 0.0f;
  const float bonus = v.is_sac() ? v.alpha() * v.log_probabilities[at] : 0.0f;
  v.losses[at] = bonus - q[column];
}

// Gradient by the actor's outputs from the one by the actions.
ACCEL_DEVICE inline void actor_output_gradient(const Pipeline& p, int r) {
  const LearnerView& v = p.view;
  const int n = v.n_actions;
  const float* by_action =
      p.memory.d_inputs + int64_t(r) * (v.n_observations + n) + v.n_observations;
  float* d = p.memory.actor_d_outputs + int64_t(r) * v.actor.n_outputs;
  const float* outputs = p.memory.actor_outputs + int64_t(r) * v.actor.n_outputs;
  const float share = v.is_sac() ? v.alpha() / float(v.n_rows) : 0.0f;
  for (int k = 0; k < n; ++k) {
    d[k] = by_action[k];
    if (!v.is_sac()) continue;
    // d log pi/du = 2 a, and u = m + exp(l) noise
    const float a = p.memory.actions[r * n + k], raw = outputs[n + k];
    d[k] = share * 2.0f * a + by_action[k] * (1.0f - a * a);
    const bool is_cut = raw < v.numbers.low || raw > v.numbers.high;
    d[n + k] = is_cut ? 0.0f : d[k] * p.memory.spreads[r * n + k] - share;
  }
  if (!finite_(v.losses[p.share.first + r])) d[0] = not_a_number();
}

// Each pipeline's gradient by the actor's weights, through the changed critics.
struct ActorGradient {
  static constexpr const char* kName = "actor_gradient";
  static constexpr int kThreads = kLearnerThreads;
  LearnerView view;

  template <class Block>
  ACCEL_DEVICE void operator()(Block& block) const {
    const Pipeline p(view, block.index());
    const Scratch& m = p.memory;
    const int n_states = view.n_observations, n = p.share.n;
    gather(block, p, view.batch->observations, n_states, m.states, n_states);
    block.barrier();
    forward(block, view.actor, view.parameters, m.states, n, m.actor_made, m.actor_outputs);
    act(block, p);
    join(block, p);
    const float* critics = view.next_parameters + view.actor.n_weights;
    forward(block, view.critic, critics, m.inputs, n, m.critic_made, m.critic_outputs);
    parallel(block, n, [&](int r) { value_action(p, r); });
    block.barrier();
    backward(block, view.critic, critics, m.inputs, n, m.critic_made, m.critic_d_outputs,
             m.critic_d_made, static_cast<float*>(nullptr), m.d_inputs);
    parallel(block, n, [&](int r) { actor_output_gradient(p, r); });
    block.barrier();
    backward(block, view.actor, view.parameters, m.states, n, m.actor_made, m.actor_d_outputs,
             m.actor_d_made, p.gradient, static_cast<float*>(nullptr));
  }

 private:
  template <class Block>
  ACCEL_DEVICE void act(Block& block, const Pipeline& p) const {
    parallel(block, p.share.n, [&](int r) {
      const int n = view.n_actions;
      if (view.is_sac())
        view.log_probabilities[p.share.first + r] = squash_row(p, r, kPresentActions);
      else
        for (int d = 0; d < n; ++d) p.memory.actions[r * n + d] = p.memory.actor_outputs[r * n + d];
    });
    block.barrier();
  }
};

}  // namespace portable
}  // namespace accel
