// Losses of DQN, TD3 and SAC and their gradients by what the networks made, vectorised over rows.
#pragma once

#include "accel/off_policy_kernels.hpp"
#include "elementary.hpp"

namespace accel {
namespace ACCEL_VARIANT {

inline void dqn_loss(const DqnBlock& b) {
  const auto at = [&](const float* columns, int j, int row) {
    return load(columns + int64_t{j} * b.stride + row);
  };
  for (int row = 0; row < b.stride; row += kLanes) {
    const Vec action = load(b.actions + row);
    Vec best = at(b.chooser, 0, row), next = at(b.q_next, 0, row), chosen{};
    for (int j = 1; j < b.n_actions; ++j) {
      const Vec other = at(b.chooser, j, row);
      const IntVec is_better = other > best;
      best = select(is_better, other, best);
      next = select(is_better, at(b.q_next, j, row), next);
    }
    for (int j = 0; j < b.n_actions; ++j)
      chosen = select(action == static_cast<float>(j), at(b.q, j, row), chosen);
    const Vec y = fma(load(b.discounts + row), next, load(b.rewards + row));
    const Vec error = chosen - y, weight = load(b.weights + row);
    const Vec bounded = at_least(at_most(error, splat(b.delta)), splat(-b.delta));
    const Vec slope = weight * bounded * b.scale;
    for (int j = 0; j < b.n_actions; ++j)
      store(b.d_q + int64_t{j} * b.stride + row,
            select(action == static_cast<float>(j), slope, Vec{}));
    store(b.td_errors + row, absolute(error));
    store(b.loss + row, weight * (bounded * fma(bounded, splat(-0.5f), error)));
    store(b.value + row, chosen);
  }
}

inline void critic_loss(const CriticBlock& b) {
  const float share = 1.0f / static_cast<float>(b.n_critics);
  for (int row = 0; row < b.stride; row += kLanes) {
    Vec next = load(b.q_next + row);
    for (int k = 1; k < b.n_critics; ++k) {
      const Vec other = load(b.q_next + int64_t{k} * b.stride + row);
      next = select(other < next, other, next);
    }
    if (b.log_probability != nullptr)
      next = fma(splat(-b.alpha), load(b.log_probability + row), next);
    const Vec y = fma(load(b.discounts + row), next, load(b.rewards + row));
    const Vec weight = load(b.weights + row);
    Vec loss{}, size{}, value{};
    for (int k = 0; k < b.n_critics; ++k) {
      const Vec q = load(b.q + int64_t{k} * b.stride + row), error = q - y;
      store(b.d_q + int64_t{k} * b.stride + row, weight * error * b.scale);
      loss = fma(weight * 0.5f * error, error, loss);
      size += absolute(error);
      value += q;
    }
    store(b.td_errors + row, size * share);
    store(b.loss + row, loss);
    store(b.value + row, value * share);
  }
}

inline void smooth_actions(float* actions, const float* noise, int64_t n, float deviation,
                           float limit) {
  for (int64_t i = 0; i < n; i += kLanes) {
    const Vec bounded = at_least(at_most(load(noise + i) * deviation, splat(limit)), splat(-limit));
    const Vec moved = load(actions + i) + bounded;
    store(actions + i, at_least(at_most(moved, splat(1.0f)), splat(-1.0f)));
  }
}

// log pi = sum over d of -noise^2/2 - l - log(2 pi)/2 - log(1 - tanh^2 u), and
// log(1 - tanh^2 u) = 2 (log 2 - |u| - log(1 + exp(-2 |u|))), accurate where tanh u rounds to 1.
inline void squash(const SquashBlock& b) {
  constexpr float half_log_two_pi = 0.918938533f, log_two = 0.693147181f;
  for (int row = 0; row < b.stride; row += kLanes) {
    Vec log_probability{};
    for (int d = 0; d < b.n_actions; ++d) {
      const int64_t at = int64_t{d} * b.stride + row;
      const Vec noise = load(b.noise + at);
      const Vec raw = load(b.outputs + int64_t{b.n_actions + d} * b.stride + row);
      const Vec log_std = at_least(at_most(raw, splat(b.high)), splat(b.low));
      const Vec spread = exp(log_std) * noise;
      const Vec u = load(b.outputs + at) + spread, size = absolute(u);
      const Vec log_slope = 2.0f * (log_two - size - log1p_unit(exp(size * -2.0f)));
      log_probability += fma(noise * -0.5f, noise, -log_std - half_log_two_pi) - log_slope;
      store(b.actions + at, tanh(u));
      store(b.spread + at, spread);
    }
    store(b.log_probability + row, log_probability);
  }
}

inline void policy_loss(const PolicyBlock& b) {
  for (int row = 0; row < b.stride; row += kLanes) {
    Vec least = load(b.q + row);
    for (int k = 1; k < b.n_critics; ++k) {
      const Vec other = load(b.q + int64_t{k} * b.stride + row);
      least = select(other < least, other, least);
    }
    IntVec is_open = splat_int(-1);  // the first of equal ones gets the gradient
    for (int k = 0; k < b.n_critics; ++k) {
      const IntVec is_least = (load(b.q + int64_t{k} * b.stride + row) == least) & is_open;
      is_open &= ~is_least;
      store(b.d_q + int64_t{k} * b.stride + row, select(is_least, splat(-b.scale), Vec{}));
    }
    Vec loss = -least;
    if (b.log_probability != nullptr)
      loss = fma(splat(b.alpha), load(b.log_probability + row), loss);
    store(b.loss + row, loss);
  }
}

// d log pi/du = 2 a, du/dm = 1, du/dl = exp(l) noise; where l was cut there is no gradient by it.
inline void squash_gradient(const SquashGradient& b) {
  const float share = b.alpha * b.scale;
  for (int d = 0; d < b.n_actions; ++d)
    for (int row = 0; row < b.stride; row += kLanes) {
      const int64_t at = int64_t{d} * b.stride + row;
      const int64_t of_log_std = int64_t{b.n_actions + d} * b.stride + row;
      const Vec a = load(b.actions + at), raw = load(b.outputs + of_log_std);
      const Vec slope = fma(-a, a, splat(1.0f));
      const Vec d_u = fma(load(b.d_actions + at), slope, a * (2.0f * share));
      const IntVec is_free = (raw >= b.low) & (raw <= b.high);
      const Vec d_log_std = fma(d_u, load(b.spread + at), splat(-share));
      store(b.d_outputs + at, d_u);
      store(b.d_outputs + of_log_std, select(is_free, d_log_std, Vec{}));
    }
}

}  // namespace ACCEL_VARIANT
}  // namespace accel
