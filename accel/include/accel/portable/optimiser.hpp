// From the pipelines' gradients to the end of a step: sums in a fixed order, clipping, Adam, targets.
// Grids of n_aggregators blocks over the parameters.
#pragma once

#include "accel/portable/learner.hpp"

namespace accel {
namespace portable {

// Where a part's parameters begin, and how many there are. The temperature's one goes with the actor.
struct Range {
  int64_t first, n;
};

ACCEL_ANYWHERE inline Range range_of(const LearnerView& view, Part part) {
  if (part == kActor) return {0, view.actor.n_weights};
  return {view.actor.n_weights, view.critic.n_weights};
}

// Sums of the pipelines' gradients in the pipelines' order, and each block's share of the square of
// the norm.
struct AggregateGradient {
  static constexpr const char* kName = "aggregate_gradient";
  static constexpr int kThreads = kLearnerThreads;
  LearnerView view;
  Part part;
  bool from_pipelines;  // else the gradient is there already, from outside

  template <class Block>
  ACCEL_DEVICE void operator()(Block& block) const {
    if (from_pipelines && block.index() == 0) measure(block);
    const Range range = range_of(view, part);
    const int64_t per_block = (range.n + block.n_blocks() - 1) / block.n_blocks();
    const int64_t begin = per_block * block.index();
    const int64_t n = clamp_<int64_t>(range.n - begin, 0, per_block);
    const Wide sum = block_sum(block, n, [&](int64_t i) {
      const Wide g = from_pipelines ? add_up(begin + i) : view.gradient[range.first + begin + i];
      if (from_pipelines) view.gradient[range.first + begin + i] = float(g);
      return g * g;
    });
    parallel(block, 1, [&](int) { view.squares[block.index()] = sum; });
  }

 private:
  ACCEL_DEVICE float add_up(int64_t i) const {
    float sum = 0.0f;
    for (int p = 0; p < view.n_pipelines; ++p)
      sum += view.pipeline_gradients[p * view.n_longest + i];
    return sum;
  }

  template <class Block>
  ACCEL_DEVICE float mean(Block& block, const float* rows) const {
    return float(block_sum(block, view.n_rows, [&](int64_t r) { return rows[r]; }) /
                 Wide(view.n_rows));
  }

  template <class Block>
  ACCEL_DEVICE void measure(Block& block) const {
    const float loss = mean(block, view.losses);
    const bool is_critic = part == kCritic;
    const float other = mean(block, is_critic ? view.values : view.log_probabilities);
    parallel(block, 1, [&](int) {
      if (is_critic) {
        view.outcome->critic_loss = loss;
        view.outcome->mean_value = other;
        return;
      }
      view.outcome->actor_loss = loss;
      if (!view.is_sac()) return;
      view.outcome->entropy = -other;
      view.outcome->temperature = view.alpha();
      view.gradient[view.n_parameters - 1] = -other - view.numbers.target_entropy;
    });
  }
};

// One parameter's step.
ACCEL_DEVICE inline void adam(const LearnerView& view, const AdamNumbers& adam, int64_t i,
                              float factor, float n_steps) {
  const float g = factor * view.gradient[i];
  const float m = adam.beta1 * view.first_moment[i] + adam.rest1 * g;
  const float v = adam.beta2 * view.second_moment[i] + adam.rest2 * g * g;
  // 1 - beta^n
  const float bias1 = -expm1_(n_steps * adam.log_beta1), bias2 = -expm1_(n_steps * adam.log_beta2);
  view.next_first[i] = m;
  view.next_second[i] = v;
  view.next_parameters[i] = view.parameters[i] -
                            adam.learning_rate / bias1 * m / (sqrt_(v / bias2) + adam.epsilon);
}

ACCEL_DEVICE inline float clip_factor(const AdamNumbers& adam, float norm) {
  return least(1.0f, adam.max_norm / (norm + 1e-6f));
}

struct AdamStep {
  static constexpr const char* kName = "adam_step";
  static constexpr int kThreads = kLearnerThreads;
  LearnerView view;
  Part part;

  template <class Block>
  ACCEL_DEVICE void operator()(Block& block) const {
    const float norm = float(sqrt_(block_sum(block, view.n_aggregators, [&](int64_t b) {
      return view.squares[b];
    })));
    const bool is_first = block.index() == 0;
    if (is_first)
      parallel(block, 1, [&](int) {
        view.outcome->norms[part] = norm;
        view.outcome->failed[part] = finite_(norm) ? 0 : 1;
        if (part == kActor && view.is_sac()) step_temperature();
      });
    if (!finite_(norm)) return;
    const AdamNumbers& numbers = view.numbers.adam[part];
    const float factor = clip_factor(numbers, norm);
    const float n_steps = float(view.counters[kCriticSteps + part] + 1);
    const Range range = range_of(view, part);
    grid_parallel(block, range.n,
                  [&](int64_t i) { adam(view, numbers, range.first + i, factor, n_steps); });
  }

 private:
  ACCEL_DEVICE void step_temperature() const {
    const int64_t i = view.n_parameters - 1;
    const float norm = abs_(view.gradient[i]);
    view.outcome->norms[kTemperature] = norm;
    view.outcome->failed[kTemperature] = finite_(norm) ? 0 : 1;
    const AdamNumbers& numbers = view.numbers.adam[kTemperature];
    adam(view, numbers, i, clip_factor(numbers, norm),
         float(view.counters[kTemperatureSteps] + 1));
  }
};

// The end of a step: take over what is new, or go back to what was there.
struct EndStep {
  static constexpr const char* kName = "end_step";
  static constexpr int kThreads = kLearnerThreads;
  LearnerView view;
  bool is_due;   // actor and targets move in this step
  bool discard;  // what a step that was never ended left; it does not count

  template <class Block>
  ACCEL_DEVICE void operator()(Block& block) const {
    int failed = discard ? 1 : 0;
    for (int part = 0; part < kParts; ++part) failed |= view.outcome->failed[part];
    grid_parallel(block, view.n_parameters, [&](int64_t i) {
      if (failed != 0)
        restore(i);
      else
        accept(i);
    });
    if (block.index() == 0 && !discard) parallel(block, 1, [&](int) { count(failed); });
  }

 private:
  ACCEL_DEVICE void restore(int64_t i) const {
    view.next_parameters[i] = view.parameters[i];
    view.next_first[i] = view.first_moment[i];
    view.next_second[i] = view.second_moment[i];
  }
  ACCEL_DEVICE void accept(int64_t i) const {
    const float parameter = view.parameters[i] = view.next_parameters[i];
    view.first_moment[i] = view.next_first[i];
    view.second_moment[i] = view.next_second[i];
    const int64_t t = i - view.first_target();
    if (!is_due || t < 0 || t >= view.n_targets) return;
    view.targets[t] += view.numbers.target_rate * (parameter - view.targets[t]);
  }
  ACCEL_DEVICE void count(int failed) const {
    view.counters[kSteps] += 1;
    view.counters[kSkipped] += failed;
    if (failed != 0) return;
    view.counters[kCriticSteps] += 1;
    if (is_due && view.has_actor()) view.counters[kActorSteps] += 1;
    if (view.is_sac()) view.counters[kTemperatureSteps] += 1;
  }
};

}  // namespace portable
}  // namespace accel
