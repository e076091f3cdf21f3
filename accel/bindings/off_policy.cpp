// Python bindings of OffPolicyLearner: checks of arguments here, arithmetic in cpu/.
#include "accel/off_policy.hpp"

#include <memory>
#include <optional>

#include "off_policy_arguments.hpp"

namespace accel {
namespace {

struct OffPolicyStep {  // as accel.interfaces.LearningStep
  py::array_t<float> td_errors;
  Measured measured;
};

std::unique_ptr<OffPolicyLearner> make_learner(const py::object& options,
                                               const std::optional<py::array>& actor_layers,
                                               const py::array& critic_layers,
                                               const py::object& seed, int n_pipelines,
                                               int n_threads,
                                               const std::string& device,
                                               const std::string& variant) {
  OffPolicyOptions o = read_options(options);
  if (!device.empty() && device != "cpu")
    refuse("device must be 'cpu' or empty, got '" + device + "'");
  require(n_pipelines >= 1 && n_pipelines <= 256, "n_pipelines", "1 to 256", n_pipelines);
  require(n_threads >= 1 && n_threads <= n_pipelines, "n_threads", "1 to n_pipelines", n_threads);
  o.seed = read_seed(seed);
  o.n_pipelines = n_pipelines, o.n_threads = n_threads;
  const Network actor = read_actor(actor_layers, o.algorithm);
  const Network critic = read_critic(critic_layers, actor, o.algorithm);
  return std::make_unique<OffPolicyLearner>(o, actor, critic, select_kernels(variant.c_str()));
}

// The arrays stay alive as long as the caller holds `batch`.
Transitions read_batch(const OffPolicyLearner& learner, const py::tuple& batch,
                       const py::object& rows) {
  if (batch.size() != 6)
    refuse("batch must hold 6 arrays (see accel.interfaces.Batch), got " +
           std::to_string(batch.size()));
  const auto field = [&](size_t i, const char* name, int64_t n, int64_t n_columns) {
    const py::array a = array_of(PyTuple_GET_ITEM(batch.ptr(), py::ssize_t(i)), name);
    return n_columns > 0 ? checked<float>(a, name, {n, n_columns}) : checked<float>(a, name, {n});
  };
  const int64_t n_observations = learner.n_observations();
  Transitions t{};
  t.observations = field(0, "observations", kAnyLength, n_observations);
  const int64_t n = py::reinterpret_borrow<py::array>(batch[0]).shape(0);
  t.actions = field(1, "actions", n, learner.n_action_columns());
  t.rewards = field(2, "rewards", n, 0);
  t.next_observations = field(3, "next_observations", n, n_observations);
  t.discounts = field(4, "discounts", n, 0);
  t.n = n;
  if (!rows.is_none()) {
    const py::array indices = array_of(rows, "rows");
    t.rows = checked<int64_t>(indices, "rows", {kAnyLength});
    t.n = indices.shape(0);
  }
  t.weights = field(5, "weights", t.n, 0);
  require(t.n >= 1, "rows of the batch", "at least 1", double(t.n));
  check_rows(t.rows, t.n, n);
  if (learner.options().algorithm == Algorithm::dqn)
    check_choices(t.actions, t.rows, t.n, learner.n_actions());
  return t;
}

OffPolicyStep learn(OffPolicyLearner& learner, const py::tuple& batch, const py::object& rows) {
  const Transitions t = read_batch(learner, batch, rows);
  py::array_t<float> td_errors(t.n);
  float* errors = td_errors.mutable_data();
  const Measured measured = locked(learner, [&] {
    const Measured m = learner.learn(t);
    std::copy(learner.td_errors().begin(), learner.td_errors().end(), errors);
    return m;
  });
  return {std::move(td_errors), measured};
}

py::array_t<float> critic_gradient(OffPolicyLearner& learner, const py::tuple& batch,
                                   const py::object& rows, int64_t first_row) {
  require(first_row >= 0, "first_row", "at least 0", double(first_row));
  const Transitions t = read_batch(learner, batch, rows);
  py::array_t<float> gradient(learner.n_critic());
  float* flat = gradient.mutable_data();
  locked(learner, [&] { learner.critic_gradient(t, first_row, flat); });
  return gradient;
}

void apply_critic(OffPolicyLearner& learner, const py::array& gradient) {
  const float* flat = checked<float>(gradient, "gradient", {learner.n_critic()});
  locked(learner, [&] { learner.apply_critic(flat); });
}

py::array_t<float> actor_gradient(OffPolicyLearner& learner,
                                  const std::optional<py::array>& observations) {
  const int64_t n = observations && observations->ndim() == 2 ? observations->shape(0) : kAnyLength;
  const float* of_actor =
      observations ? checked<float>(*observations, "observations", {n, learner.n_observations()})
                   : nullptr;
  // Sizes are read under the lock: another thread may begin another step before it.
  const std::vector<float> gradient = locked(learner, [&] {
    if (of_actor != nullptr && n != learner.n_batch_rows())
      refuse("observations must have as many rows as the batch, " +
             std::to_string(learner.n_batch_rows()) + ", got " + std::to_string(n));
    std::vector<float> flat(size_t(learner.n_actor_gradient()));
    learner.actor_gradient(of_actor, flat.data());
    return flat;
  });
  return to_array(gradient.data(), gradient.size());
}

OffPolicyStep apply_actor(OffPolicyLearner& learner, const py::array& gradient) {
  const float* flat = checked<float>(gradient, "gradient", {kAnyLength});
  const int64_t n = gradient.shape(0);
  std::vector<float> td_errors;
  const Measured measured = locked(learner, [&] {
    if (n != learner.n_actor_gradient())
      refuse("gradient must have as many numbers as actor_gradient gave, " +
             std::to_string(learner.n_actor_gradient()) + ", got " + std::to_string(n));
    td_errors.assign(learner.td_errors().begin(), learner.td_errors().end());
    return learner.apply_actor(flat);
  });
  return {to_array(td_errors.data(), td_errors.size()), measured};
}

void load_parameters(OffPolicyLearner& learner, const py::array& flat,
                     const std::optional<py::array>& targets) {
  const float* values = checked<float>(flat, "flat", {learner.n_parameters()});
  const float* of_targets =
      targets ? checked<float>(*targets, "targets", {learner.n_targets()}) : nullptr;
  locked(learner, [&] { learner.load_parameters(values, of_targets); });
}

py::dict state(const OffPolicyLearner& learner) {
  const OffPolicyState s = locked(learner, [&] { return learner.state(); });
  py::dict out;
  out["parameters"] = to_array(s.parameters.data(), s.parameters.size());
  out["targets"] = to_array(s.targets.data(), s.targets.size());
  out["first_moment"] = to_array(s.first_moment.data(), s.first_moment.size());
  out["second_moment"] = to_array(s.second_moment.data(), s.second_moment.size());
  out["counters"] = to_array(s.counters.data(), s.counters.size());
  return out;
}

py::array_t<float> parameters(const OffPolicyLearner& learner) {
  const OffPolicyState s = locked(learner, [&] { return learner.state(); });
  return to_array(s.parameters.data(), s.parameters.size());
}

void load_state(OffPolicyLearner& learner, const py::object& from) {
  OffPolicyState s;
  s.targets.resize(size_t(learner.n_targets()));
  for (std::vector<float>* values : {&s.parameters, &s.first_moment, &s.second_moment})
    values->resize(size_t(learner.n_parameters()));
  read_entry<float>(from, "parameters", learner.n_parameters(), s.parameters);
  read_entry<float>(from, "targets", learner.n_targets(), s.targets);
  read_entry<float>(from, "first_moment", learner.n_parameters(), s.first_moment);
  read_entry<float>(from, "second_moment", learner.n_parameters(), s.second_moment);
  read_entry<int64_t>(from, "counters", kCounters, s.counters);
  require_moments(s.second_moment);
  require_counts(s.counters);
  locked(learner, [&] { learner.load_state(s); });
}

void bind_step(py::module_& m) {
  const auto number = [](double Measured::*member) {
    return [member](const OffPolicyStep& s) { return s.measured.*member; };
  };
  py::class_<OffPolicyStep>(m, "OffPolicyStep")
      .def_readonly("td_errors", &OffPolicyStep::td_errors)
      .def_property_readonly("critic_loss", number(&Measured::critic_loss))
      .def_property_readonly("mean_value", number(&Measured::mean_value))
      .def_property_readonly("critic_gradient_norm", number(&Measured::critic_gradient_norm))
      .def_property_readonly("actor_loss", number(&Measured::actor_loss))
      .def_property_readonly("actor_gradient_norm", number(&Measured::actor_gradient_norm))
      .def_property_readonly("entropy", number(&Measured::entropy))
      .def_property_readonly("temperature", number(&Measured::temperature))
      .def_property_readonly("applied", [](const OffPolicyStep& s) { return s.measured.applied; });
}

void bind_learner(py::module_& m) {
  using py::arg;
  using Learner = OffPolicyLearner;
  const auto counter = [](Counter c) { return [c](const Learner& l) { return l.counter(c); }; };
  py::class_<Learner>(m, "OffPolicyLearner")
      .def(py::init(&make_learner), arg("options"), arg("actor_layers").none(true),
           arg("critic_layers"), py::kw_only(), arg("seed") = 0, arg("n_pipelines") = 1,
           arg("n_threads") = 1, arg("device") = "", arg("variant") = "")
      .def_property_readonly("n_parameters", &Learner::n_parameters)
      .def_property_readonly("n_steps", counter(kSteps))
      .def_property_readonly("n_skipped", counter(kSkipped))
      .def_property_readonly("backend", [](const Learner&) { return "cpu"; })
      .def_property_readonly("device", [](const Learner&) { return "cpu"; })
      .def_property_readonly("variant", &Learner::variant)
      .def("learn", &learn, arg("batch"), arg("rows") = py::none())
      .def("critic_gradient", &critic_gradient, arg("batch"), arg("rows") = py::none(),
           arg("first_row") = 0)
      .def("apply_critic", &apply_critic, arg("gradient"))
      .def("actor_gradient", &actor_gradient, arg("observations") = py::none())
      .def("apply_actor", &apply_actor, arg("gradient"))
      .def("parameters", &parameters)
      .def("load_parameters", &load_parameters, arg("flat"), arg("targets") = py::none())
      .def("state", &state)
      .def("load_state", &load_state, arg("state"));
}

}  // namespace

void bind_off_policy(py::module_& m) {
  bind_step(m);
  bind_learner(m);
}

}  // namespace accel
