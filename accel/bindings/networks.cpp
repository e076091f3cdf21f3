// Python bindings of a network's evaluation, and of what tests and benchmarks ask of the kernels.
#include "accel/mlp.hpp"
#include "arguments.hpp"

namespace accel {
namespace {

py::array_t<float> forward(const py::array& layers, const py::array& weights,
                           const py::array& inputs, const std::string& variant) {
  const Network network = read_network(layers, "layers");
  const float* w = checked<float>(weights, "weights", {network.n_weights});
  const float* x = checked<float>(inputs, "inputs", {kAnyLength, network.n_inputs});
  const Kernels& kernels = select_kernels(variant.c_str());
  const int64_t n = inputs.shape(0);
  py::array_t<float> out({n, int64_t{network.n_outputs}});
  float* y = out.mutable_data();
  const GilReleased released;
  Mlp mlp(network, kernels);
  mlp.pack(w, false);
  mlp.infer(x, n, y);
  return out;
}

py::array_t<float> elementary(const std::string& function, const py::array& x,
                              const std::string& variant) {
  const char* names[] = {"exp", "log", "log1p_unit", "tanh", "sigmoid"};
  int code = 0;
  while (code < 5 && function != names[code]) ++code;
  if (code == 5)
    refuse("function must be exp, log, log1p_unit, tanh or sigmoid, got '" + function + "'");
  const float* from = checked<float>(x, "x", {kAnyLength});
  py::array_t<float> out(x.shape(0));
  select_kernels(variant.c_str()).elementary(code, from, out.mutable_data(), x.shape(0));
  return out;
}

// Independent multiply-adds in registers, nothing else: what the arithmetic unit can do at most.
double multiply_adds(int64_t n, const std::string& variant) {
  const Kernels& kernels = select_kernels(variant.c_str());
  const GilReleased released;
  return kernels.multiply_adds(n);
}

std::vector<std::string> variants() {
  std::vector<std::string> names;
  for (auto k = available_kernels(); *k != nullptr; ++k) names.emplace_back((*k)->name);
  return names;
}

}  // namespace

void bind_networks(py::module_& m) {
  using py::arg;
  m.def("forward", &forward, arg("layers"), arg("weights"), arg("inputs"), arg("variant") = "");
  m.def("elementary", &elementary, arg("function"), arg("x"), arg("variant") = "");
  m.def("multiply_adds", &multiply_adds, arg("n"), arg("variant") = "");
  m.def("variants", &variants);
}

}  // namespace accel
