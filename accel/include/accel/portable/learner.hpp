// What the kernels of an off-policy learner work on: numbers, networks, memory. Plain data, handed to
// each kernel as it is.
//
// A step writes the changed parameters and moments beside the present ones; only its end takes them
// over, and only where everything was finite.
#pragma once

#include "accel/portable/network.hpp"

namespace accel {
namespace portable {

enum class Algorithm : int { dqn, td3, sac };

// Adam (Kingma & Ba 2015). 1 - beta and log(beta) come from float64: they cancel in float32.
struct AdamNumbers {
  float learning_rate, beta1, beta2, rest1, rest2, log_beta1, log_beta2, epsilon, max_norm;
};

enum Part : int { kCritic, kActor, kTemperature, kParts };  // what has an optimiser of its own

struct LearnerNumbers {
  Algorithm algorithm;
  AdamNumbers adam[kParts];
  float target_rate;
  float huber_delta;               // DQN; infinity: squared error
  float target_noise, noise_clip;  // TD3
  float target_entropy, low, high; // SAC, of log(standard deviation)
  bool is_double;                  // DQN
  uint64_t seed;
};

// Where the batch lies, in device memory so that a recorded step serves batches anywhere.
struct BatchPlace {
  const float *observations, *actions, *rewards, *next_observations, *discounts, *weights;
  const int64_t* rows;  // to learn, null: all in turn
  int64_t n_kept;       // rows that the arrays hold
  int64_t first_row;    // number of the batch's first row in the noise
};

// Measured by one step; NaN where it does not apply.
struct Outcome {
  float critic_loss, mean_value, actor_loss, entropy, temperature;
  float norms[kParts];     // of the gradients
  int32_t failed[kParts];  // 1: the gradient was not finite
};

enum Counter : int { kSteps, kSkipped, kCriticSteps, kActorSteps, kTemperatureSteps, kCounters };

struct LearnerView {
  LearnerNumbers numbers;
  NetworkView actor, critic;  // DQN: the actor has no layers
  int n_observations, n_actions;  // columns of the actions
  int n_rows, n_pipelines;
  const BatchPlace* batch;
  Outcome* outcome;
  int64_t* counters;                                // (kCounters,)
  float *parameters, *first_moment, *second_moment; // (n_parameters,) actor, critics, log(alpha)
  float *next_parameters, *next_first, *next_second;
  float* targets;                                   // (n_targets,)
  float* gradient;                                  // (n_parameters,)
  float* pipeline_gradients;                        // (n_pipelines, n_longest)
  Wide* squares;                                    // (n_aggregators,) sums over parts of a gradient
  float *td_errors, *losses, *values, *log_probabilities;  // (n_rows,)
  float* scratch;                                   // (n_pipelines, scratch_floats)
  int64_t n_parameters, n_targets, n_longest, scratch_floats;
  int n_aggregators;                                // blocks of the grids over parameters

  ACCEL_ANYWHERE bool has_actor() const { return numbers.algorithm != Algorithm::dqn; }
  ACCEL_ANYWHERE bool is_sac() const { return numbers.algorithm == Algorithm::sac; }
  // Only TD3 has a target actor.
  ACCEL_ANYWHERE int64_t first_target() const {
    return numbers.algorithm == Algorithm::td3 ? 0 : actor.n_weights;
  }
  ACCEL_ANYWHERE const float* target_critic() const {
    return targets + actor.n_weights - first_target();
  }
  ACCEL_DEVICE float alpha() const { return exp_(parameters[n_parameters - 1]); }
};

// Rows of one pipeline.
struct Share {
  int first, n;
  ACCEL_ANYWHERE Share(int pipeline, int n_pipelines, int n_rows)
      : first(int(int64_t(n_rows) * pipeline / n_pipelines)),
        n(int(int64_t(n_rows) * (pipeline + 1) / n_pipelines) - first) {}
};

// Memory of one pipeline for n_rows rows, in the order of use.
struct Scratch {
  float *states;                       // (n_rows, n_observations)
  float *inputs, *d_inputs;            // (n_rows, n_observations + n_actions) of the critics
  float *actions, *spreads;            // (n_rows, n_actions); du/dlog(standard deviation)
  float *actor_made, *actor_d_made, *actor_outputs, *actor_d_outputs;
  float *critic_made, *critic_d_made, *critic_outputs, *critic_d_outputs;
  float* learnt;                       // (n_rows,) values y that the critics learn
  int64_t n_floats = 0;

  ACCEL_ANYWHERE Scratch(const LearnerView& view, float* memory, int n_rows) {
    const int n_inputs = view.n_observations + view.n_actions;
    states = take(memory, view.n_observations, n_rows);
    inputs = take(memory, n_inputs, n_rows);
    d_inputs = take(memory, n_inputs, n_rows);
    actions = take(memory, view.n_actions, n_rows);
    spreads = take(memory, view.n_actions, n_rows);
    actor_made = take(memory, view.actor.n_columns, n_rows);
    actor_d_made = take(memory, view.actor.n_columns, n_rows);
    actor_outputs = take(memory, view.actor.n_outputs, n_rows);
    actor_d_outputs = take(memory, view.actor.n_outputs, n_rows);
    critic_made = take(memory, view.critic.n_columns, n_rows);
    critic_d_made = take(memory, view.critic.n_columns, n_rows);
    critic_outputs = take(memory, view.critic.n_outputs, n_rows);
    critic_d_outputs = take(memory, view.critic.n_outputs, n_rows);
    learnt = take(memory, 1, n_rows);
  }

 private:
  ACCEL_ANYWHERE float* take(float* memory, int64_t n_columns, int n_rows) {
    float* begin = memory + n_floats;
    n_floats += n_columns * n_rows;
    return begin;
  }
};

}  // namespace portable
}  // namespace accel
