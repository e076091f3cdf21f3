// Options of accel/interfaces.py, as read from Python.
#pragma once

#include <cstdint>

namespace accel {

struct AdamOptions {
  double learning_rate, beta1, beta2, epsilon, max_gradient_norm;
};

enum class Algorithm { dqn, td3, sac };

struct OffPolicyOptions {
  Algorithm algorithm;
  AdamOptions actor, critic, temperature;
  bool is_double;
  double huber_delta;  // infinity: squared error
  double target_noise, noise_clip;
  double target_entropy, initial_temperature, log_std_low, log_std_high;
  double target_rate;
  int64_t interval;  // steps between changes of the targets (TD3: and of the actor)
  uint64_t seed;
  int n_pipelines, n_threads;
};

}  // namespace accel
