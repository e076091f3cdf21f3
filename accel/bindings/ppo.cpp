// Python bindings of PpoLearner: checks of arguments here, arithmetic in cpu/.
#include <cmath>
#include <memory>
#include <optional>

#include "accel/fixed_point.hpp"
#include "accel/ppo_learner.hpp"
#include "arguments.hpp"

namespace accel {
namespace {

PpoOptions read_options(const std::string& policy, double clip, double entropy_coefficient,
                        double max_gradient_norm, double actor_learning_rate,
                        double critic_learning_rate, std::pair<double, double> betas,
                        double epsilon) {
  if (policy != "gaussian" && policy != "categorical")
    refuse("policy must be 'gaussian' or 'categorical', got '" + policy + "'");
  require(clip > 0 && std::isfinite(clip), "clip", "positive and finite", clip);
  require(entropy_coefficient >= 0 && std::isfinite(entropy_coefficient), "entropy_coefficient",
          "at least 0 and finite", entropy_coefficient);
  require(max_gradient_norm > 0, "max_gradient_norm", "positive (infinity: never clip)",
          max_gradient_norm);
  for (const auto& [field, rate] : {std::pair("actor_learning_rate", actor_learning_rate),
                                    std::pair("critic_learning_rate", critic_learning_rate)})
    require(rate >= 0 && std::isfinite(rate), field, "at least 0 and finite", rate);
  for (double beta : {betas.first, betas.second})
    require(beta >= 0 && beta < 1, "adam_betas", "at least 0 and below 1", beta);
  require(epsilon > 0 && std::isfinite(epsilon), "adam_epsilon", "positive and finite", epsilon);
  return {policy == "gaussian", clip, entropy_coefficient, max_gradient_norm,
          {actor_learning_rate, critic_learning_rate}, betas.first, betas.second, epsilon};
}

void check_discrete_actions(const PpoLearner& learner, const float* actions, int64_t n) {
  if (learner.gaussian()) return;
  for (int64_t i = 0; i < n; ++i)
    if (!(actions[i] >= 0 && actions[i] < float(learner.n_actions()) &&
          actions[i] == std::floor(actions[i])))
      refuse("actions must hold whole numbers from 0 to " + std::to_string(learner.n_actions() - 1) +
             ", got " + std::to_string(actions[i]) + " in row " + std::to_string(i));
}

void load_batch(PpoLearner& learner, const py::array& observations, const py::array& actions,
                const py::array& advantages, const py::array& value_targets,
                const std::optional<py::array>& log_probabilities) {
  BatchView batch{};
  batch.observations = checked<float>(observations, "observations",
                                      {kAnyLength, learner.n_observations()});
  batch.n_rows = observations.shape(0);
  batch.actions = checked<float>(actions, "actions", {batch.n_rows, learner.n_action_columns()});
  batch.advantages = checked<float>(advantages, "advantages", {batch.n_rows});
  batch.value_targets = checked<float>(value_targets, "value_targets", {batch.n_rows});
  if (log_probabilities)
    batch.old_log = checked<float>(*log_probabilities, "log_probabilities", {batch.n_rows});
  if (batch.n_rows == 0) refuse("observations must have at least one row, got 0");
  check_discrete_actions(learner, batch.actions, batch.n_rows);
  locked(learner, [&] { learner.load_batch(batch); });
}

py::array_t<float> log_probabilities(PpoLearner& learner, const py::array& observations,
                                     const py::array& actions) {
  const float* x = checked<float>(observations, "observations",
                                  {kAnyLength, learner.n_observations()});
  const int64_t n = observations.shape(0);
  const float* a = checked<float>(actions, "actions", {n, learner.n_action_columns()});
  check_discrete_actions(learner, a, n);
  py::array_t<float> out(n);
  float* y = out.mutable_data();
  locked(learner, [&] { learner.log_probabilities(x, a, n, y); });
  return out;
}

py::array_t<float> values(PpoLearner& learner, const py::array& observations) {
  const float* x = checked<float>(observations, "observations",
                                  {kAnyLength, learner.n_observations()});
  const int64_t n = observations.shape(0);
  py::array_t<float> out(n);
  float* y = out.mutable_data();
  locked(learner, [&] { learner.values(x, n, y); });
  return out;
}

void check_rows(const int64_t* rows, int64_t n, int64_t n_batch) {
  for (int64_t i = 0; i < n; ++i)
    if (rows[i] < 0 || rows[i] >= n_batch)
      refuse("rows must be rows of the loaded batch, 0 to " + std::to_string(n_batch - 1) +
             ", got " + std::to_string(rows[i]) + " at " + std::to_string(i));
}

void check_offsets(const int64_t* offsets, int64_t n, int64_t n_rows) {
  if (n < 1) refuse("chunk_offsets must have at least one element, got 0");
  for (int64_t i = 0; i < n; ++i)
    if (offsets[i] < (i == 0 ? 0 : offsets[i - 1]) || offsets[i] > n_rows)
      refuse("chunk_offsets must not decrease and stay within 0 to len(rows) = " +
             std::to_string(n_rows) + ", got " + std::to_string(offsets[i]) + " at " +
             std::to_string(i));
}

void gradient(PpoLearner& learner, const py::array& rows, const py::array& chunk_offsets,
              int64_t n_minibatch, py::array& accumulators) {
  if (learner.batch_rows() == 0) refuse("no batch is loaded: call load_batch before gradient");
  const int64_t* r = checked<int64_t>(rows, "rows", {kAnyLength});
  const int64_t* offsets = checked<int64_t>(chunk_offsets, "chunk_offsets", {kAnyLength});
  int64_t* sums = checked_writeable<int64_t>(accumulators, "accumulators",
                                             {learner.n_accumulators()});
  const int64_t n_offsets = chunk_offsets.shape(0);
  check_rows(r, rows.shape(0), learner.batch_rows());
  check_offsets(offsets, n_offsets, rows.shape(0));
  const int64_t n_used = offsets[n_offsets - 1] - offsets[0];
  if (n_minibatch < 1 || n_minibatch < n_used)
    refuse("n_minibatch counts the rows of the whole minibatch, at least the " +
           std::to_string(n_used) + " of this call and at least 1, got " +
           std::to_string(n_minibatch));
  locked(learner, [&] { learner.gradient(r, offsets, n_offsets - 1, n_minibatch, sums); });
}

PpoStep apply(PpoLearner& learner, const py::array& accumulators, double learning_rate_factor) {
  require(std::isfinite(learning_rate_factor) && learning_rate_factor >= 0.0, "learning_rate_factor",
          "a number of at least 0", learning_rate_factor);
  const int64_t* sums = checked<int64_t>(accumulators, "accumulators", {learner.n_accumulators()});
  return locked(learner, [&] { return learner.apply(sums, learning_rate_factor); });
}

py::array_t<float> parameters(const PpoLearner& learner) {
  return to_array(learner.parameters(), size_t(learner.n_parameters()));
}

void load_parameters(PpoLearner& learner, const py::array& flat) {
  const float* values = checked<float>(flat, "flat", {learner.n_parameters()});
  locked(learner, [&] { learner.load_parameters(values); });
}

py::dict state(const PpoLearner& learner) {
  const PpoState s = locked(learner, [&] { return learner.state(); });
  py::dict out;
  out["parameters"] = to_array(s.parameters.data(), s.parameters.size());
  out["first_moment"] = to_array(s.first_moment.data(), s.first_moment.size());
  out["second_moment"] = to_array(s.second_moment.data(), s.second_moment.size());
  out["counters"] = to_array(s.counters.data(), s.counters.size());
  out["exponents"] = to_array(s.exponents.data(), s.exponents.size());
  return out;
}

void load_state(PpoLearner& learner, const py::dict& from) {
  const size_t n = size_t(learner.n_parameters());
  PpoState s{std::vector<float>(n), std::vector<float>(n), std::vector<float>(n), {}, {}};
  read_entry<float>(from, "parameters", int64_t(n), s.parameters);
  read_entry<float>(from, "first_moment", int64_t(n), s.first_moment);
  read_entry<float>(from, "second_moment", int64_t(n), s.second_moment);
  read_entry<int64_t>(from, "counters", 2, s.counters);
  read_entry<int32_t>(from, "exponents", 2, s.exponents);
  require_counts(s.counters);
  for (int32_t e : s.exponents)
    require(e >= kLowestExponent && e <= kHighestExponent, "state['exponents']", "-70 to 100", e);
  locked(learner, [&] { learner.load_state(s); });
}

const char* outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::applied: return "applied";
    case Outcome::recompute: return "recompute";
    default: return "non_finite";
  }
}

void bind_step(py::module_& m) {
  py::class_<PpoStep>(m, "PpoStep")
      .def_property_readonly("status", [](const PpoStep& s) { return outcome_name(s.outcome); })
      .def_property_readonly("actor_gradient_norm",
                             [](const PpoStep& s) { return s.gradient_norms[0]; })
      .def_property_readonly("critic_gradient_norm",
                             [](const PpoStep& s) { return s.gradient_norms[1]; })
      .def_readonly("policy_loss", &PpoStep::policy_loss)
      .def_readonly("value_loss", &PpoStep::value_loss)
      .def_readonly("entropy", &PpoStep::entropy)
      .def_readonly("kl", &PpoStep::kl)
      .def_readonly("clip_fraction", &PpoStep::clip_fraction)
      .def_readonly("n_rows", &PpoStep::n_rows)
      .def_readonly("n_overflow_chunks", &PpoStep::n_overflow_chunks)
      .def_readonly("n_non_finite_chunks", &PpoStep::n_non_finite_chunks);
}

std::unique_ptr<PpoLearner> make_learner(
    const py::array& actor_layers, const py::array& critic_layers, const std::string& policy,
    double clip, double entropy_coefficient, double max_gradient_norm, double actor_learning_rate,
    double critic_learning_rate, std::pair<double, double> adam_betas, double adam_epsilon,
    const std::string& variant) {
  const PpoOptions options =
      read_options(policy, clip, entropy_coefficient, max_gradient_norm, actor_learning_rate,
                   critic_learning_rate, adam_betas, adam_epsilon);
  return std::make_unique<PpoLearner>(read_network(actor_layers, "actor_layers"),
                                      read_network(critic_layers, "critic_layers"), options,
                                      select_kernels(variant.c_str()));
}

void bind_learner(py::module_& m) {
  using py::arg;
  py::class_<PpoLearner>(m, "PpoLearner")
      .def(py::init(&make_learner), arg("actor_layers"), arg("critic_layers"), py::kw_only(),
           arg("policy"), arg("clip"), arg("entropy_coefficient"), arg("max_gradient_norm"),
           arg("actor_learning_rate"), arg("critic_learning_rate"),
           arg("adam_betas") = std::pair(0.9, 0.999), arg("adam_epsilon") = 1e-5,
           arg("variant") = "")
      .def_property_readonly("n_parameters", &PpoLearner::n_parameters)
      .def_property_readonly("n_accumulators", &PpoLearner::n_accumulators)
      .def_property_readonly("n_steps", &PpoLearner::n_steps)
      .def_property_readonly("n_skipped", &PpoLearner::n_skipped)
      .def_property_readonly("variant", [](const PpoLearner& l) { return l.kernels().name; })
      .def("parameters", &parameters)
      .def("load_parameters", &load_parameters, arg("flat"))
      .def("load_batch", &load_batch, arg("observations"), arg("actions"), arg("advantages"),
           arg("value_targets"), arg("log_probabilities") = py::none())
      .def("log_probabilities", &log_probabilities, arg("observations"), arg("actions"))
      .def("values", &values, arg("observations"))
      .def("gradient", &gradient, arg("rows"), arg("chunk_offsets"), arg("n_minibatch"),
           arg("accumulators"))
      .def("apply", &apply, arg("accumulators"), arg("learning_rate_factor") = 1.0)
      .def("state", &state)
      .def("load_state", &load_state, arg("state"));
}

}  // namespace

void bind_ppo(py::module_& m) {
  bind_step(m);
  bind_learner(m);
}

}  // namespace accel
