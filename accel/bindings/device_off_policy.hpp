// Python methods of a device's off-policy learner: checks of arguments here, so that a bad call
// changes nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "accel/device/learner.hpp"
#include "off_policy_arguments.hpp"

namespace accel {
namespace device {

// Holds the arrays of a batch, whatever the caller's object does with them meanwhile.
class BatchReader {
 public:
  BatchReader(const Learner& learner, const py::handle& batch) : learner_(learner), batch_(batch) {}

  HostBatch read(const std::optional<py::array>& rows, int64_t first_row) {
    HostBatch read{};
    const py::array rewards = array_of(batch_.attr("rewards"), "rewards");
    n_ = rewards.ndim() == 1 ? rewards.shape(0) : kAnyLength;
    const bool is_dqn = learner_.algorithm() == portable::Algorithm::dqn;
    const int64_t n_columns = learner_.n_observations();
    read.observations = field("observations", {n_, n_columns});
    read.actions = field("actions", {n_, is_dqn ? 1 : learner_.n_actions()});
    read.rewards = field("rewards", {n_});
    read.next_observations = field("next_observations", {n_, n_columns});
    read.discounts = field("discounts", {n_});
    read.n = rows ? rows->size() : n_;
    read.rows = rows ? checked<int64_t>(*rows, "rows", {kAnyLength}) : nullptr;
    check_rows(read.rows, read.n, n_);
    read.weights = field("weights", {read.n});
    read.first_row = first_row;
    if (read.n < 1) refuse("a batch must have at least one row, got 0");
    if (first_row < 0) refuse("first_row must be at least 0, got " + std::to_string(first_row));
    if (is_dqn) check_choices(read.actions, read.rows, read.n, learner_.n_actions());
    return read;
  }

 private:
  const float* field(const char* name, const std::vector<int64_t>& shape) {
    held_.push_back(array_of(batch_.attr(name), name));
    return checked<float>(held_.back(), name, shape);
  }

  const Learner& learner_;
  py::handle batch_;
  std::vector<py::array> held_;
  int64_t n_ = 0;  // rows that the arrays hold
};

// As accel.interfaces.LearningStep.
inline void bind_step(py::module_& m, const char* name) {
  using Step = const StepMeasures&;
  const auto norm = [](portable::Part part) {
    return [part](Step s) { return s.outcome.norms[part]; };
  };
  py::class_<StepMeasures>(m, name, py::module_local())
      .def_property_readonly(
          "td_errors", [](Step s) { return to_array(s.td_errors.data(), s.td_errors.size()); })
      .def_property_readonly("critic_loss", [](Step s) { return s.outcome.critic_loss; })
      .def_property_readonly("mean_value", [](Step s) { return s.outcome.mean_value; })
      .def_property_readonly("critic_gradient_norm", norm(portable::kCritic))
      .def_property_readonly("actor_loss", [](Step s) { return s.outcome.actor_loss; })
      .def_property_readonly("actor_gradient_norm", norm(portable::kActor))
      .def_property_readonly("entropy", [](Step s) { return s.outcome.entropy; })
      .def_property_readonly("temperature", [](Step s) { return s.outcome.temperature; })
      .def_property_readonly("applied", &StepMeasures::applied);
}

template <class Class>
StepMeasures learn(Class& learner, const py::object& batch, const std::optional<py::array>& rows) {
  BatchReader reader(learner, batch);
  const HostBatch read = reader.read(rows, 0);
  const GilReleased released;
  return learner.learn(read);
}

template <class Class>
py::array_t<float> critic_gradient(Class& learner, const py::object& batch,
                                   const std::optional<py::array>& rows, int64_t first_row) {
  BatchReader reader(learner, batch);
  const HostBatch read = reader.read(rows, first_row);
  const auto gradient = without_gil([&] { return learner.critic_gradient(read); });
  return to_array(gradient.data(), gradient.size());
}

template <class Class>
void apply_critic(Class& learner, const py::array& gradient) {
  const float* values = checked<float>(gradient, "gradient", {learner.critic().n_weights});
  const GilReleased released;
  learner.apply_critic(values);
}

template <class Class>
py::array_t<float> actor_gradient(Class& learner, const std::optional<py::array>& observations) {
  const float* of_actor =
      observations ? checked<float>(*observations, "observations",
                                    {learner.n_batch_rows(), learner.n_observations()})
                   : nullptr;
  std::vector<float> gradient;
  {
    const GilReleased released;
    gradient = learner.actor_gradient(of_actor);
  }
  return to_array(gradient.data(), gradient.size());
}

template <class Class>
StepMeasures apply_actor(Class& learner, const py::array& gradient) {
  const float* values = checked<float>(gradient, "gradient", {learner.n_actor_gradient()});
  const GilReleased released;
  return learner.apply_actor(values);
}

template <class Class>
void load_parameters(Class& learner, const py::array& flat,
                     const std::optional<py::array>& targets) {
  const float* values = checked<float>(flat, "flat", {learner.n_parameters()});
  const float* target_values =
      targets ? checked<float>(*targets, "targets", {learner.n_targets()}) : nullptr;
  const GilReleased released;
  learner.load_parameters(values, target_values);
}

template <class Class>
py::dict state(Class& learner) {
  const LearnerState state = without_gil([&] { return learner.state(); });
  py::dict read;
  read["parameters"] = to_array(state.parameters.data(), state.parameters.size());
  read["targets"] = to_array(state.targets.data(), state.targets.size());
  read["first_moment"] = to_array(state.first_moment.data(), state.first_moment.size());
  read["second_moment"] = to_array(state.second_moment.data(), state.second_moment.size());
  read["counters"] = to_array(state.counters.data(), state.counters.size());
  return read;
}

template <class Class>
void load_state(Class& learner, const py::object& from) {
  LearnerState s;
  for (std::vector<float>* values : {&s.parameters, &s.first_moment, &s.second_moment})
    values->resize(size_t(learner.n_parameters()));
  s.targets.resize(size_t(learner.n_targets()));
  s.counters.resize(portable::kCounters);
  read_entry<float>(from, "parameters", learner.n_parameters(), s.parameters);
  read_entry<float>(from, "targets", learner.n_targets(), s.targets);
  read_entry<float>(from, "first_moment", learner.n_parameters(), s.first_moment);
  read_entry<float>(from, "second_moment", learner.n_parameters(), s.second_moment);
  read_entry<int64_t>(from, "counters", portable::kCounters, s.counters);
  require_moments(s.second_moment);
  require_counts(s.counters);
  without_gil([&] { learner.load_state(s); });
}

template <class Class>
py::array_t<float> parameters(Class& learner) {
  const LearnerState state = without_gil([&] { return learner.state(); });
  return to_array(state.parameters.data(), state.parameters.size());
}

template <class Class, class PyClass>
void bind_learner_methods(PyClass& c) {
  using py::arg;
  c.def_property_readonly("n_parameters", [](Class& l) { return l.n_parameters(); })
      .def_property_readonly("n_steps", [](Class& l) { return l.n_steps(); })
      .def_property_readonly("n_skipped", [](Class& l) { return l.n_skipped(); })
      .def_property_readonly("device", [](Class& l) { return l.device(); })
      .def("learn", &learn<Class>, arg("batch"), arg("rows") = py::none())
      .def("critic_gradient", &critic_gradient<Class>, arg("batch"), arg("rows") = py::none(),
           arg("first_row") = 0)
      .def("apply_critic", &apply_critic<Class>, arg("gradient"))
      .def("actor_gradient", &actor_gradient<Class>, arg("observations") = py::none())
      .def("apply_actor", &apply_actor<Class>, arg("gradient"))
      .def("parameters", &parameters<Class>)
      .def("load_parameters", &load_parameters<Class>, arg("flat"), arg("targets") = py::none())
      .def("state", &state<Class>)
      .def("load_state", &load_state<Class>, arg("state"));
}

}  // namespace device
}  // namespace accel
