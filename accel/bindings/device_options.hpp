// Options of accel.interfaces as the kernels take them, and whether networks fit them.
#pragma once

#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "accel/device/learner.hpp"
#include "arguments.hpp"

namespace accel {
namespace device {

inline double number(const py::handle& options, const char* field) {
  return options.attr(field).cast<double>();
}

inline portable::AdamNumbers read_adam(const py::handle& adam) {
  const auto [beta1, beta2] = adam.attr("betas").cast<std::pair<double, double>>();
  return {float(number(adam, "learning_rate")), float(beta1), float(beta2), float(1 - beta1),
          float(1 - beta2), float(std::log(beta1)), float(std::log(beta2)),
          float(number(adam, "epsilon")), float(number(adam, "max_gradient_norm"))};
}

inline void read_dqn(const py::handle& options, LearnerOptions& read) {
  read.numbers.algorithm = portable::Algorithm::dqn;
  read.numbers.adam[portable::kCritic] = read_adam(options.attr("optimiser"));
  read.numbers.is_double = options.attr("double").cast<bool>();
  read.numbers.huber_delta = float(number(options, "huber_delta"));
  read.interval = options.attr("target_interval").cast<int>();
}

inline void read_td3(const py::handle& options, LearnerOptions& read) {
  read.numbers.algorithm = portable::Algorithm::td3;
  read.numbers.target_noise = float(number(options, "target_noise"));
  read.numbers.noise_clip = float(number(options, "noise_clip"));
  read.interval = options.attr("policy_delay").cast<int>();
}

inline void read_sac(const py::handle& options, LearnerOptions& read) {
  read.numbers.algorithm = portable::Algorithm::sac;
  read.numbers.adam[portable::kTemperature] = read_adam(options.attr("temperature"));
  read.numbers.target_entropy = float(number(options, "target_entropy"));
  const auto [low, high] = options.attr("log_std_range").cast<std::pair<double, double>>();
  read.numbers.low = float(low);
  read.numbers.high = float(high);
  read.initial_temperature = float(number(options, "initial_temperature"));
}

inline LearnerOptions read_options(const py::object& options, uint64_t seed, int64_t n_pipelines) {
  const py::module_ interfaces = py::module_::import("accel.interfaces");
  LearnerOptions read;
  read.numbers = {};
  read.numbers.huber_delta = std::numeric_limits<float>::infinity();
  read.numbers.seed = seed;
  if (py::isinstance(options, interfaces.attr("Dqn")))
    read_dqn(options, read);
  else if (py::isinstance(options, interfaces.attr("Td3")))
    read_td3(options, read);
  else if (py::isinstance(options, interfaces.attr("Sac")))
    read_sac(options, read);
  else
    refuse("options must be Dqn, Td3 or Sac, got " + py::str(options).cast<std::string>());
  if (read.numbers.algorithm != portable::Algorithm::dqn) {
    read.numbers.adam[portable::kActor] = read_adam(options.attr("actor"));
    read.numbers.adam[portable::kCritic] = read_adam(options.attr("critic"));
  }
  read.numbers.target_rate = float(number(options, "target_rate"));
  if (n_pipelines < 1 || n_pipelines > 4096)
    refuse("n_pipelines must be 1 to 4096, got " + std::to_string(n_pipelines));
  read.n_pipelines = int(n_pipelines);
  return read;
}

inline Network read_actor(const std::optional<py::array>& layers, portable::Algorithm algorithm) {
  if (algorithm == portable::Algorithm::dqn) {
    if (layers) refuse("actor_layers must be None for DQN, got a layer table");
    return {};
  }
  if (!layers) refuse("actor_layers must be a layer table, got None");
  Network actor = read_network(*layers, "actor_layers");
  if (algorithm == portable::Algorithm::sac && actor.n_outputs % 2 != 0)
    refuse("actor_layers must make means and as many logarithms of standard deviations, got " +
           std::to_string(actor.n_outputs) + " columns");
  return actor;
}

inline Network read_critic(const py::array& layers, const Network& actor,
                           portable::Algorithm algorithm) {
  Network critic = read_network(layers, "critic_layers");
  if (algorithm == portable::Algorithm::dqn) return critic;
  const int n_actions =
      algorithm == portable::Algorithm::sac ? actor.n_outputs / 2 : actor.n_outputs;
  if (critic.n_inputs != actor.n_inputs + n_actions)
    refuse("critic_layers must read " + std::to_string(actor.n_inputs) +
           " observations, as the actor does, and " + std::to_string(n_actions) +
           " actions, got " + std::to_string(critic.n_inputs) + " columns");
  return critic;
}

}  // namespace device
}  // namespace accel
