// Options, networks and rows of the off-policy learners of all backends, read from Python.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "accel/off_policy_options.hpp"
#include "arguments.hpp"

namespace accel {

inline double number(const py::handle& options, const char* field) {
  return options.attr(field).cast<double>();
}

inline AdamOptions read_adam(const py::handle& adam) {
  const auto [beta1, beta2] = adam.attr("betas").cast<std::pair<double, double>>();
  return {number(adam, "learning_rate"), beta1, beta2, number(adam, "epsilon"),
          number(adam, "max_gradient_norm")};
}

inline void read_dqn(const py::handle& from, OffPolicyOptions& o) {
  o.algorithm = Algorithm::dqn;
  o.critic = read_adam(from.attr("optimiser"));
  o.is_double = from.attr("double").cast<bool>();
  o.huber_delta = number(from, "huber_delta");
  o.interval = from.attr("target_interval").cast<int64_t>();
}

inline void read_td3(const py::handle& from, OffPolicyOptions& o) {
  o.algorithm = Algorithm::td3;
  o.target_noise = number(from, "target_noise");
  o.noise_clip = number(from, "noise_clip");
  o.interval = from.attr("policy_delay").cast<int64_t>();
}

inline void read_sac(const py::handle& from, OffPolicyOptions& o) {
  o.algorithm = Algorithm::sac;
  o.temperature = read_adam(from.attr("temperature"));
  o.target_entropy = number(from, "target_entropy");
  o.initial_temperature = number(from, "initial_temperature");
  std::tie(o.log_std_low, o.log_std_high) =
      from.attr("log_std_range").cast<std::pair<double, double>>();
}

inline OffPolicyOptions read_options(const py::object& from) {
  const py::module_ interfaces = py::module_::import("accel.interfaces");
  OffPolicyOptions o{};
  o.huber_delta = std::numeric_limits<double>::infinity();
  o.interval = 1;
  if (py::isinstance(from, interfaces.attr("Dqn")))
    read_dqn(from, o);
  else if (py::isinstance(from, interfaces.attr("Td3")))
    read_td3(from, o);
  else if (py::isinstance(from, interfaces.attr("Sac")))
    read_sac(from, o);
  else
    refuse("options must be Dqn, Td3 or Sac, got " + py::repr(from).cast<std::string>());
  if (o.algorithm != Algorithm::dqn) {
    o.actor = read_adam(from.attr("actor"));
    o.critic = read_adam(from.attr("critic"));
  }
  o.target_rate = number(from, "target_rate");
  return o;
}

inline uint64_t read_seed(const py::object& seed) {
  try {
    return seed.cast<uint64_t>();
  } catch (const py::cast_error&) {
    refuse("seed must be 0 to 2^64 - 1, got " + py::repr(seed).cast<std::string>());
  }
}

inline Network read_actor(const std::optional<py::array>& layers, Algorithm algorithm) {
  if (algorithm == Algorithm::dqn) {
    if (layers) refuse("actor_layers must be None for DQN, got a layer table");
    return {};
  }
  if (!layers) refuse("actor_layers must be a layer table for TD3 and SAC, got None");
  Network actor = read_network(*layers, "actor_layers");
  if (algorithm == Algorithm::sac && actor.n_outputs % 2 != 0)
    refuse("actor_layers must make means and as many logarithms of standard deviations, got " +
           std::to_string(actor.n_outputs) + " columns");
  return actor;
}

inline Network read_critic(const py::array& layers, const Network& actor, Algorithm algorithm) {
  Network critic = read_network(layers, "critic_layers");
  if (algorithm == Algorithm::dqn) return critic;
  const int n_actions = algorithm == Algorithm::sac ? actor.n_outputs / 2 : actor.n_outputs;
  if (critic.n_inputs != actor.n_inputs + n_actions)
    refuse("critic_layers must read " + std::to_string(actor.n_inputs) +
           " observations, as the actor does, and " + std::to_string(n_actions) +
           " actions, got " + std::to_string(critic.n_inputs) + " columns");
  return critic;
}

inline void require_moments(const std::vector<float>& second_moment) {
  for (float value : second_moment)
    require(value >= 0, "state['second_moment']", "at least 0", double(value));
}

// Rows to learn, null: all `n` in turn; `n_stored` are there.
inline void check_rows(const int64_t* rows, int64_t n, int64_t n_stored) {
  if (rows == nullptr) return;
  for (int64_t i = 0; i < n; ++i)
    if (rows[i] < 0 || rows[i] >= n_stored)
      refuse("rows[" + std::to_string(i) + "] must be 0 to " + std::to_string(n_stored - 1) +
             ", got " + std::to_string(rows[i]));
}

// DQN: of those rows, each action is an index.
inline void check_choices(const float* actions, const int64_t* rows, int64_t n, int n_actions) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t row = rows != nullptr ? rows[i] : i;
    const float action = actions[row];
    if (!(action >= 0 && action < float(n_actions) && action == float(int(action))))
      refuse("actions[" + std::to_string(row) + "] must be a whole number from 0 to " +
             std::to_string(n_actions - 1) + ", got " + std::to_string(action));
  }
}

}  // namespace accel
