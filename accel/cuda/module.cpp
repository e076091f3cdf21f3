// The extension accel/_cuda as Python sees it.
#include <optional>

#include "arrays.hpp"
#include "bindings/arguments.hpp"
#include "bindings/device_off_policy.hpp"
#include "bindings/device_options.hpp"
#include "bindings/tree_methods.hpp"
#include "learner.hpp"
#include "tree.hpp"

namespace accel {
namespace cuda {
namespace {

std::unique_ptr<CudaTree> new_tree(int64_t capacity, int64_t fanout, const std::string& device,
                                   const std::string& dtype) {
  device::checked_capacity(capacity);
  const int log_fanout = device::log_of_fanout(fanout);
  if (dtype != "float32" && dtype != "float64")
    refuse("dtype must be 'float32' or 'float64', got '" + dtype + "'");
  return make_tree(capacity, log_fanout, find_device(device), dtype == "float64");
}

DlType type_of(const CudaTree& tree) {
  return tree.is_float64() ? dl_type<double>() : dl_type<float>();
}

py::tuple sample_device(CudaTree& tree, const py::object& targets, const py::object& stream) {
  DeviceCall call(tree.device_index(), tree.stream(), stream);
  const int64_t n = call.length(targets, "targets");
  const void* x = call.take(targets, "targets", type_of(tree), {n});
  int64_t* indices = call.give<int64_t>({n});
  void* priorities = call.give(type_of(tree), {n});
  tree.sample_there(x, n, 0, indices, priorities, nullptr);
  return py::tuple(py::cast(call.end(tree.keeper)));
}

py::tuple sample_stratified_device(CudaTree& tree, const py::object& uniforms, double beta,
                                   const py::object& stream) {
  check_coefficient("beta", beta);
  DeviceCall call(tree.device_index(), tree.stream(), stream);
  const int64_t n = call.length(uniforms, "uniforms");
  const void* u = call.take(uniforms, "uniforms", type_of(tree), {n});
  int64_t* indices = call.give<int64_t>({n});
  float* weights = call.give<float>({n});
  void* priorities = call.give(type_of(tree), {n});
  tree.sample_there(u, n, beta, indices, priorities, weights);
  const std::vector<py::object> arrays = call.end(tree.keeper);
  return py::make_tuple(arrays[0], arrays[1]);
}

py::object retrieve_device(CudaTree& tree, const py::object& indices, const py::object& stream) {
  DeviceCall call(tree.device_index(), tree.stream(), stream);
  const int64_t n = call.length(indices, "indices");
  const int64_t* rows = call.take<int64_t>(indices, "indices", {n});
  tree.retrieve_there(rows, n, call.give(type_of(tree), {n}));
  return call.end(tree.keeper)[0];
}

void change_device(CudaTree& tree, const char* field, const py::object& indices,
                   const py::object& values, const py::object& stream) {
  DeviceCall call(tree.device_index(), tree.stream(), stream);
  const int64_t n = call.length(indices, "indices");
  const int64_t* rows = call.take<int64_t>(indices, "indices", {n});
  const void* changes = call.take(values, field, type_of(tree), {n});
  tree.change_there(rows, changes, n, std::string(field) == "deltas");
  call.end(tree.keeper);
}

void set_td_errors_device(CudaTree& tree, const py::object& indices, const py::object& td_errors,
                          double alpha, double epsilon, const py::object& stream) {
  check_coefficient("alpha", alpha);
  check_coefficient("epsilon", epsilon);
  DeviceCall call(tree.device_index(), tree.stream(), stream);
  const int64_t n = call.length(indices, "indices");
  const int64_t* rows = call.take<int64_t>(indices, "indices", {n});
  const float* errors = call.take<float>(td_errors, "td_errors", {n});
  tree.set_td_errors_there(rows, errors, n, alpha, epsilon);
  call.end(tree.keeper);
}

void bind_tree(py::module_& m) {
  using py::arg;
  const auto stream = arg("stream") = py::none();
  py::class_<CudaTree> tree(m, "SumTree");
  tree.def(py::init(&new_tree), arg("capacity"), arg("fanout") = 16, py::kw_only(),
           arg("device") = "", arg("dtype") = "float32")
      .def_property_readonly("backend", [](const CudaTree&) { return "cuda"; })
      .def("sample_device", &sample_device, arg("targets"), stream)
      .def("sample_stratified_device", &sample_stratified_device, arg("uniforms"), arg("beta"),
           stream)
      .def("retrieve_device", &retrieve_device, arg("indices"), stream)
      .def("set_device",
           [](CudaTree& t, const py::object& i, const py::object& v, const py::object& s) {
             change_device(t, "priorities", i, v, s);
           }, arg("indices"), arg("priorities"), stream)
      .def("update_device",
           [](CudaTree& t, const py::object& i, const py::object& v, const py::object& s) {
             change_device(t, "deltas", i, v, s);
           }, arg("indices"), arg("deltas"), stream)
      .def("set_td_errors_device", &set_td_errors_device, arg("indices"), arg("td_errors"),
           arg("alpha"), arg("epsilon"), stream)
      .def("check_device", &CudaTree::check_there, py::call_guard<GilReleased>());
  bind_tree_methods<CudaTree>(tree);
}

std::unique_ptr<CudaLearner> new_learner(const py::object& options,
                                         const std::optional<py::array>& actor_layers,
                                         const py::array& critic_layers, const py::object& seed,
                                         int64_t n_pipelines, const std::string& device,
                                         bool graphs) {
  const auto read = device::read_learner(options, actor_layers, critic_layers, seed, n_pipelines);
  return make_learner(read.options, read.actor, read.critic, find_device(device), graphs);
}

py::object learn_device(CudaLearner& learner, const py::object& batch, const py::object& rows,
                        const py::object& stream) {
  DeviceCall call(learner.device_index(), learner.stream(), stream);
  const bool is_dqn = learner.algorithm() == portable::Algorithm::dqn;
  const int64_t n_columns = learner.n_observations();
  const int64_t n_kept = call.length(batch.attr("rewards"), "rewards");
  const int64_t n = rows.is_none() ? n_kept : call.length(rows, "rows");
  const auto take = [&](const char* field, const std::vector<int64_t>& shape) {
    return call.take<float>(batch.attr(field), field, shape);
  };
  portable::BatchPlace place{};
  place.observations = take("observations", {n_kept, n_columns});
  place.actions = take("actions", {n_kept, is_dqn ? 1 : learner.n_actions()});
  place.rewards = take("rewards", {n_kept});
  place.next_observations = take("next_observations", {n_kept, n_columns});
  place.discounts = take("discounts", {n_kept});
  place.weights = take("weights", {n});
  if (!rows.is_none()) place.rows = call.take<int64_t>(rows, "rows", {n});
  place.n_kept = n_kept;
  if (n < 1) refuse("a batch must have at least one row, got 0");
  learner.learn_there(place, n, call.give<float>({n}));
  return call.end(learner.keeper)[0];
}

void bind_learner(py::module_& m) {
  using py::arg;
  device::bind_step(m, "LearningStep");
  py::class_<CudaLearner> learner(m, "OffPolicyLearner");
  learner
      .def(py::init(&new_learner), arg("options"), arg("actor_layers").none(true),
           arg("critic_layers"), py::kw_only(), arg("seed") = 0, arg("n_pipelines") = 16,
           arg("device") = "", arg("graphs") = true)
      .def_property_readonly("backend", [](const CudaLearner&) { return "cuda"; })
      .def("learn_device", &learn_device, arg("batch"), arg("rows") = py::none(),
           arg("stream") = py::none())
      .def("last_step", &CudaLearner::last_step, py::call_guard<GilReleased>());
  device::bind_learner_methods<CudaLearner>(learner);
}

}  // namespace
}  // namespace cuda
}  // namespace accel

PYBIND11_MODULE(_cuda, m) {
  m.doc() = "CUDA part of accel.";
  m.def("device_names", &accel::cuda::device_names);
  m.def("why_no_device", &accel::cuda::why_no_device);
  accel::cuda::bind_arrays(m);
  accel::cuda::bind_tree(m);
  accel::cuda::bind_learner(m);
}
