// Options as the kernels of a device take them.
#pragma once

#include <cmath>
#include <string>

#include "accel/device/learner.hpp"
#include "off_policy_arguments.hpp"

namespace accel {
namespace device {

inline portable::AdamNumbers to_numbers(const AdamOptions& o) {
  return {float(o.learning_rate), float(o.beta1), float(o.beta2), float(1 - o.beta1),
          float(1 - o.beta2), float(std::log(o.beta1)), float(std::log(o.beta2)),
          float(o.epsilon), float(o.max_gradient_norm)};
}

inline portable::Algorithm to_portable(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::dqn: return portable::Algorithm::dqn;
    case Algorithm::td3: return portable::Algorithm::td3;
    default: return portable::Algorithm::sac;
  }
}

inline LearnerOptions to_device(const OffPolicyOptions& o, uint64_t seed, int64_t n_pipelines) {
  if (n_pipelines < 1 || n_pipelines > 4096)
    refuse("n_pipelines must be 1 to 4096, got " + std::to_string(n_pipelines));
  LearnerOptions to{};
  portable::LearnerNumbers& numbers = to.numbers;
  numbers.algorithm = to_portable(o.algorithm);
  numbers.adam[portable::kActor] = to_numbers(o.actor);
  numbers.adam[portable::kCritic] = to_numbers(o.critic);
  numbers.adam[portable::kTemperature] = to_numbers(o.temperature);
  numbers.target_rate = float(o.target_rate);
  numbers.huber_delta = float(o.huber_delta);
  numbers.target_noise = float(o.target_noise);
  numbers.noise_clip = float(o.noise_clip);
  numbers.target_entropy = float(o.target_entropy);
  numbers.low = float(o.log_std_low);
  numbers.high = float(o.log_std_high);
  numbers.is_double = o.is_double;
  numbers.seed = seed;
  to.initial_temperature = float(o.initial_temperature);
  to.interval = o.interval;
  to.n_pipelines = int(n_pipelines);
  return to;
}

// All that a device's learner is made from.
struct LearnerArguments {
  LearnerOptions options;
  Network actor, critic;
};

inline LearnerArguments read_learner(const py::object& options,
                                     const std::optional<py::array>& actor_layers,
                                     const py::array& critic_layers, const py::object& seed,
                                     int64_t n_pipelines) {
  const OffPolicyOptions read = read_options(options);
  LearnerArguments made;
  made.options = to_device(read, read_seed(seed), n_pipelines);
  made.actor = read_actor(actor_layers, read.algorithm);
  made.critic = read_critic(critic_layers, made.actor, read.algorithm);
  return made;
}

}  // namespace device
}  // namespace accel
