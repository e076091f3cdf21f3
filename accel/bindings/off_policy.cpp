// Python bindings of OffPolicyLearner: checks of arguments here, arithmetic in cpu/.
#include "accel/off_policy.hpp"

#include <cmath>
#include <memory>
#include <optional>

#include "arguments.hpp"

namespace accel {
namespace {

struct OffPolicyStep {  // as accel.interfaces.LearningStep
  py::array_t<float> td_errors;
  Measured measured;
};

AdamOptions read_adam(const py::object& adam) {
  const auto betas = adam.attr("betas").cast<std::pair<double, double>>();
  return {adam.attr("learning_rate").cast<double>(), betas.first, betas.second,
          adam.attr("epsilon").cast<double>(), adam.attr("max_gradient_norm").cast<double>()};
}

void read_dqn(const py::object& from, OffPolicyOptions& o) {
  o.algorithm = Algorithm::dqn;
  o.critic = read_adam(from.attr("optimiser"));
  o.is_double = from.attr("double").cast<bool>();
  o.huber_delta = from.attr("huber_delta").cast<double>();
  o.interval = from.attr("target_interval").cast<int64_t>();
}

void read_td3(const py::object& from, OffPolicyOptions& o) {
  o.algorithm = Algorithm::td3;
  o.actor = read_adam(from.attr("actor"));
  o.critic = read_adam(from.attr("critic"));
  o.target_noise = from.attr("target_noise").cast<double>();
  o.noise_clip = from.attr("noise_clip").cast<double>();
  o.interval = from.attr("policy_delay").cast<int64_t>();
}

void read_sac(const py::object& from, OffPolicyOptions& o) {
  o.algorithm = Algorithm::sac;
  o.actor = read_adam(from.attr("actor"));
  o.critic = read_adam(from.attr("critic"));
  o.temperature = read_adam(from.attr("temperature"));
  o.target_entropy = from.attr("target_entropy").cast<double>();
  o.initial_temperature = from.attr("initial_temperature").cast<double>();
  const auto range = from.attr("log_std_range").cast<std::pair<double, double>>();
  o.log_std_low = range.first, o.log_std_high = range.second;
  o.interval = 1;
}

OffPolicyOptions read_options(const py::object& from) {
  const py::module_ interfaces = py::module_::import("accel.interfaces");
  OffPolicyOptions o{};
  if (py::isinstance(from, interfaces.attr("Dqn"))) read_dqn(from, o);
  else if (py::isinstance(from, interfaces.attr("Td3"))) read_td3(from, o);
  else if (py::isinstance(from, interfaces.attr("Sac"))) read_sac(from, o);
  else refuse("options must be Dqn, Td3 or Sac, got " + py::repr(from).cast<std::string>());
  o.target_rate = from.attr("target_rate").cast<double>();
  return o;
}

uint64_t read_seed(const py::int_& seed) {
  try {
    return seed.cast<uint64_t>();
  } catch (const py::cast_error&) {
    refuse("seed must be 0 to 2^64 - 1, got " + py::str(seed).cast<std::string>());
  }
}

std::unique_ptr<OffPolicyLearner> make_learner(const py::object& options,
                                               const std::optional<py::array>& actor_layers,
                                               const py::array& critic_layers, const py::int_& seed,
                                               int n_pipelines, int n_threads,
                                               const std::string& device,
                                               const std::string& variant) {
  OffPolicyOptions o = read_options(options);
  const bool is_dqn = o.algorithm == Algorithm::dqn;
  if (is_dqn == actor_layers.has_value())
    refuse(std::string("actor_layers must be ") +
           (is_dqn ? "None for DQN, got a table" : "a layer table for TD3 and SAC, got None"));
  if (!device.empty() && device != "cpu") refuse("device must be 'cpu' or empty, got '" + device + "'");
  require(n_pipelines >= 1 && n_pipelines <= 256, "n_pipelines", "1 to 256", n_pipelines);
  require(n_threads >= 1 && n_threads <= n_pipelines, "n_threads", "1 to n_pipelines", n_threads);
  o.seed = read_seed(seed);
  o.n_pipelines = n_pipelines, o.n_threads = n_threads;
  return std::make_unique<OffPolicyLearner>(
      o, is_dqn ? Network{} : read_network(*actor_layers, "actor_layers"),
      read_network(critic_layers, "critic_layers"), select_kernels(variant.c_str()));
}

// Runs with the GIL released; two threads of Python take turns on one learner.
template <class Function>
auto locked(const OffPolicyLearner& learner, Function function) {
  py::gil_scoped_release release;
  std::lock_guard<std::mutex> lock(learner.mutex());
  return function();
}

void check_indices(const OffPolicyLearner& learner, const Transitions& t, int64_t n_stored) {
  if (t.rows != nullptr)
    for (int64_t i = 0; i < t.n; ++i)
      if (t.rows[i] < 0 || t.rows[i] >= n_stored)
        refuse("rows must be 0 to " + std::to_string(n_stored - 1) + ", got " +
               std::to_string(t.rows[i]) + " at " + std::to_string(i));
  if (learner.options().algorithm != Algorithm::dqn) return;
  for (int64_t i = 0; i < t.n; ++i) {
    const float action = t.actions[t.rows != nullptr ? t.rows[i] : i];
    if (!(action >= 0 && action < float(learner.n_actions()) && action == float(int(action))))
      refuse("actions must be whole numbers from 0 to " + std::to_string(learner.n_actions() - 1) +
             ", got " + std::to_string(action) + " in row " + std::to_string(i) + " of the batch");
  }
}

// The arrays stay alive as long as the caller holds `batch`.
Transitions read_batch(const OffPolicyLearner& learner, const py::tuple& batch,
                       const py::object& rows) {
  if (batch.size() != 6)
    refuse("batch must hold 6 arrays (see accel.interfaces.Batch), got " +
           std::to_string(batch.size()));
  const auto field = [&](size_t i, const char* name, int64_t n, int64_t n_columns) {
    const py::handle array = PyTuple_GET_ITEM(batch.ptr(), py::ssize_t(i));
    if (!py::isinstance<py::array>(array))
      refuse(std::string(name) + " must be an array, got " + py::repr(array).cast<std::string>());
    const py::array a = py::reinterpret_borrow<py::array>(array);
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
    if (!py::isinstance<py::array>(rows))
      refuse("rows must be an array, got " + py::repr(rows).cast<std::string>());
    const py::array indices = py::reinterpret_borrow<py::array>(rows);
    t.rows = checked<int64_t>(indices, "rows", {kAnyLength});
    t.n = indices.shape(0);
  }
  t.weights = field(5, "weights", t.n, 0);
  require(t.n >= 1, "rows of the batch", "at least 1", double(t.n));
  check_indices(learner, t, n);
  return t;
}

OffPolicyStep make_step(const OffPolicyLearner& learner, const Measured& measured) {
  return {to_array(learner.td_errors().data(), learner.td_errors().size()), measured};
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

py::array_t<float> actor_gradient(OffPolicyLearner& learner) {
  py::array_t<float> gradient(learner.n_actor_gradient());
  float* flat = gradient.mutable_data();
  locked(learner, [&] { learner.actor_gradient(flat); });
  return gradient;
}

OffPolicyStep apply_actor(OffPolicyLearner& learner, const py::array& gradient) {
  const float* flat = checked<float>(gradient, "gradient", {learner.n_actor_gradient()});
  const Measured measured = locked(learner, [&] { return learner.apply_actor(flat); });
  return make_step(learner, measured);
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

template <class T, class Values>
void read_entry(const py::object& from, const char* key, int64_t n, Values& to) {
  const std::string field = std::string("state['") + key + "']";
  if (!from.contains(key)) refuse("state must hold '" + std::string(key) + "', got no such entry");
  const py::object entry = from[key];
  if (!py::isinstance<py::array>(entry))
    refuse(field + " must be an array, got " + py::repr(entry).cast<std::string>());
  const T* data = checked<T>(py::reinterpret_borrow<py::array>(entry), field.c_str(), {n});
  std::copy(data, data + n, to.begin());
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
  for (float value : s.second_moment)
    require(value >= 0, "state['second_moment']", "at least 0", double(value));
  for (int64_t count : s.counters)
    require(count >= 0, "state['counters']", "at least 0", double(count));
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
      .def("actor_gradient", &actor_gradient)
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
