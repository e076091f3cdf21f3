// The clipped surrogate loss of PPO (Schulman et al. 2017, equations 7 and 9) and its gradient by the
// outputs of the policy, vectorised over rows.
#pragma once

#include "accel/kernels.hpp"
#include "elementary.hpp"

namespace accel {
namespace ACCEL_VARIANT {

constexpr float kHalfLogTwoPi = 0.918938533f;
constexpr float kEntropyOfUnitNormal = 1.418938533f;  // (1 + log(2 pi)) / 2

// Diagonal normal, mean m and standard deviation s = sigmoid(z): with u = (a - m) / s,
//   log p = sum -u^2/2 - log s - log(2 pi)/2,   H = sum log s + (1 + log(2 pi))/2
//   d log p/dm = u / s,   d log p/dz = (u^2 - 1)(1 - s),   dH/dz = 1 - s
// log s = min(z, 0) - log(1 + exp(-|z|)) is accurate where s rounds to 0 or to 1.
inline void gaussian(const PpoBlock& b) {
  const int n = b.n_actions;
  for (int row = 0; row < b.stride; row += kLanes) {
    Vec log_probability{}, entropy{};
    for (int d = 0; d < n; ++d) {
      const int64_t of_mean = int64_t{d} * b.stride + row;
      const int64_t of_deviation = int64_t{n + d} * b.stride + row;
      const Vec z = load(b.outputs + of_deviation);
      const Vec e = exp(-absolute(z));
      const Vec inverse = 1.0f / (1.0f + e);
      const Vec log_deviation = select(z > 0.0f, Vec{}, z) - log1p_unit(e);
      const Vec rest = select(z < 0.0f, inverse, e * inverse);          // 1 - s
      const Vec precision = select(z < 0.0f, (1.0f + e) / e, 1.0f + e);  // 1 / s
      const Vec u = (load(b.actions + of_mean) - load(b.outputs + of_mean)) * precision;
      log_probability += fma(u * -0.5f, u, -log_deviation - kHalfLogTwoPi);
      entropy += log_deviation + kEntropyOfUnitNormal;
      store(b.d_log_probability + of_mean, u * precision);
      store(b.d_log_probability + of_deviation, fma(u, u, splat(-1.0f)) * rest);
      store(b.d_entropy + of_mean, Vec{});
      store(b.d_entropy + of_deviation, rest);
    }
    store(b.log_probability + row, log_probability);
    store(b.entropy + row, entropy);
  }
}

// Softmax of the logits z: log p_j = z_j - max z - log sum exp(z - max z), H = -sum p_j log p_j
//   d log p_a/dz_j = [j = a] - p_j,   dH/dz_j = -p_j (log p_j + H)
inline void categorical(const PpoBlock& b) {
  for (int row = 0; row < b.stride; row += kLanes) {
    const auto logits = [&](int j) { return load(b.outputs + int64_t{j} * b.stride + row); };
    Vec largest = logits(0);
    for (int j = 1; j < b.n_actions; ++j) largest = at_least(logits(j), largest);
    Vec total{};
    for (int j = 0; j < b.n_actions; ++j) total += exp(logits(j) - largest);
    const Vec log_total = log(total);
    const Vec action = load(b.actions + row);
    Vec chosen{}, entropy{};
    for (int j = 0; j < b.n_actions; ++j) {
      const Vec log_p = logits(j) - largest - log_total;
      const Vec p = exp(log_p);
      const IntVec is_chosen = action == static_cast<float>(j);
      chosen = select(is_chosen, log_p, chosen);
      entropy = fma(-p, log_p, entropy);
      store(b.d_log_probability + int64_t{j} * b.stride + row,
            select(is_chosen, splat(1.0f), Vec{}) - p);
    }
    for (int j = 0; j < b.n_actions; ++j) {
      const Vec log_p = logits(j) - largest - log_total;
      store(b.d_entropy + int64_t{j} * b.stride + row, -exp(log_p) * (log_p + entropy));
    }
    store(b.log_probability + row, chosen);
    store(b.entropy + row, entropy);
  }
}

// loss = -mean min(r A, clip(r, 1 - c, 1 + c) A) - entropy_coefficient mean H, r = exp(log p - old log p).
// Turns d_log_probability into the gradient of the loss by the outputs.
inline void surrogate(const PpoBlock& b, int n_outputs) {
  const Vec low = splat(1.0f - b.clip), high = splat(1.0f + b.clip);
  const Vec entropy_weight = splat(-b.entropy_coefficient * b.scale);
  for (int row = 0; row < b.stride; row += kLanes) {
    const Vec log_ratio = load(b.log_probability + row) - load(b.old_log + row);
    const Vec ratio = exp(log_ratio);
    const Vec advantage = load(b.advantages + row);
    const Vec free = ratio * advantage;
    const Vec bound = at_least(at_most(ratio, high), low) * advantage;
    const IntVec is_free = free <= bound;
    const Vec outside = absolute(ratio - 1.0f);
    store(b.loss + row, -select(is_free, free, bound));
    store(b.kl + row, (ratio - 1.0f) - log_ratio);
    store(b.clipped + row, select(outside > b.clip, splat(1.0f), Vec{}));
    const Vec by_log = select(is_free, free * -b.scale, Vec{});
    for (int j = 0; j < n_outputs; ++j) {
      const int64_t at = int64_t{j} * b.stride + row;
      const Vec of_entropy = entropy_weight * load(b.d_entropy + at);
      store(b.d_log_probability + at, fma(by_log, load(b.d_log_probability + at), of_entropy));
    }
  }
}

}  // namespace ACCEL_VARIANT
}  // namespace accel
