// Python methods of a device's sum tree: checks of arguments here, so that a bad call changes nothing.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "accel/device/tree.hpp"
#include "arguments.hpp"

namespace accel {
namespace device {

inline std::string at(const char* field, int64_t i) {
  return std::string(field) + "[" + std::to_string(i) + "]";
}

template <class Holds>
const double* checked_each(const py::array& array, const char* field, int64_t n, const char* rule,
                           Holds holds) {
  const double* values = checked<double>(array, field, {n});
  for (int64_t i = 0; i < array.shape(0); ++i)
    if (!holds(values[i]))
      refuse(at(field, i) + " must be " + rule + ", got " + to_text(values[i]));
  return values;
}

inline const int64_t* checked_indices(const py::array& array, int64_t capacity) {
  const int64_t* rows = checked<int64_t>(array, "indices", {kAnyLength});
  for (int64_t i = 0; i < array.shape(0); ++i)
    if (rows[i] < 0 || rows[i] >= capacity)
      refuse(at("indices", i) + " must be 0 to " + std::to_string(capacity - 1) + ", got " +
             std::to_string(rows[i]));
  return rows;
}

inline const double* checked_priorities(const Tree& tree, const py::array& array, int64_t n) {
  const double most = tree.most();
  const std::string rule = "at least 0 and at most " + to_text(most);
  return checked_each(array, "priorities", n, rule.c_str(),
                      [most](double p) { return p >= 0 && p <= most; });
}

inline double checked_priority(const Tree& tree, const char* field, double priority) {
  const std::string rule = "at least 0 and at most " + to_text(tree.most());
  require(priority >= 0 && priority <= tree.most(), field, rule.c_str(), priority);
  return priority;
}

template <class Class>
py::tuple sample(Class& tree, const py::array& targets) {
  const double* x = checked_each(targets, "targets", kAnyLength, "at least 0 and finite",
                                 [](double t) { return t >= 0 && std::isfinite(t); });
  const int64_t n = targets.shape(0);
  py::array_t<int64_t> indices(n);
  py::array_t<double> priorities(n);
  int64_t* rows = indices.mutable_data();
  double* found = priorities.mutable_data();
  {
    py::gil_scoped_release release;
    tree.sample(x, n, rows, found);
  }
  return py::make_tuple(indices, priorities);
}

template <class Class>
py::tuple sample_stratified(Class& tree, const py::array& uniforms, double beta) {
  const double* u = checked_each(uniforms, "uniforms", kAnyLength, "at least 0 and below 1",
                                 [](double x) { return x >= 0 && x < 1; });
  require(beta >= 0 && std::isfinite(beta), "beta", "at least 0 and finite", beta);
  const int64_t n = uniforms.shape(0);
  py::array_t<int64_t> indices(n);
  py::array_t<float> weights(n);
  int64_t* rows = indices.mutable_data();
  float* weight = weights.mutable_data();
  {
    py::gil_scoped_release release;
    tree.sample_stratified(u, n, beta, rows, weight);
  }
  return py::make_tuple(indices, weights);
}

template <class Class>
py::array_t<double> retrieve(Class& tree, const py::array& indices) {
  const int64_t* rows = checked_indices(indices, tree.capacity());
  const int64_t n = indices.shape(0);
  py::array_t<double> priorities(n);
  double* out = priorities.mutable_data();
  py::gil_scoped_release release;
  tree.retrieve(rows, n, out);
  return priorities;
}

template <class Class>
void update(Class& tree, const py::array& indices, const py::array& deltas) {
  const int64_t* rows = checked_indices(indices, tree.capacity());
  const int64_t n = indices.shape(0);
  const double* values = checked_each(deltas, "deltas", n, "finite",
                                      [](double d) { return std::isfinite(d); });
  py::gil_scoped_release release;
  tree.change(rows, values, n, true);
}

template <class Class>
void set(Class& tree, const py::array& indices, const py::array& priorities) {
  const int64_t* rows = checked_indices(indices, tree.capacity());
  const int64_t n = indices.shape(0);
  const double* values = checked_priorities(tree, priorities, n);
  py::gil_scoped_release release;
  tree.change(rows, values, n, false);
}

template <class Class>
void set_td_errors(Class& tree, const py::array& indices, const py::array& td_errors, double alpha,
                   double epsilon) {
  const int64_t* rows = checked_indices(indices, tree.capacity());
  const int64_t n = indices.shape(0);
  const float* errors = checked<float>(td_errors, "td_errors", {n});
  require(alpha >= 0 && std::isfinite(alpha), "alpha", "at least 0 and finite", alpha);
  require(epsilon >= 0 && std::isfinite(epsilon), "epsilon", "at least 0 and finite", epsilon);
  std::vector<double> priorities(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    if (!std::isfinite(errors[i]))
      refuse(at("td_errors", i) + " must be finite, got " + to_text(errors[i]));
    const double priority = std::pow(std::fabs(double(errors[i])) + epsilon, alpha);
    priorities[size_t(i)] = checked_priority(tree, at("priorities", i).c_str(), priority);
  }
  py::gil_scoped_release release;
  tree.change(rows, priorities.data(), n, false);
}

template <class Class>
void insert(Class& tree, int64_t start, int64_t n, std::optional<double> priority) {
  const std::string last = std::to_string(tree.capacity() - 1);
  if (start < 0 || start >= tree.capacity())
    refuse("start must be 0 to " + last + ", got " + std::to_string(start));
  if (n < 0 || n > tree.capacity())
    refuse("n must be 0 to " + std::to_string(tree.capacity()) + ", got " + std::to_string(n));
  if (priority) checked_priority(tree, "priority", *priority);
  py::gil_scoped_release release;
  tree.insert(start, n, priority.value_or(-1.0));
}

template <class Class>
py::array_t<double> priorities(Class& tree) {
  py::array_t<double> out(tree.capacity());
  double* values = out.mutable_data();
  py::gil_scoped_release release;
  tree.priorities(values);
  return out;
}

template <class Class>
void load(Class& tree, const py::array& priorities, double largest) {
  const int64_t n = tree.capacity();
  const double* values = checked_priorities(tree, priorities, n);
  double high = 0;
  for (int64_t i = 0; i < n; ++i) high = std::fmax(high, values[i]);
  const std::string rule = "positive, at least the largest priority " + to_text(high) +
                           " and at most " + to_text(tree.most());
  require(largest > 0 && largest >= high && largest <= tree.most(), "largest", rule.c_str(),
          largest);
  py::gil_scoped_release release;
  tree.load(values, largest);
}

template <class Class, class PyClass>
void bind_tree_methods(PyClass& c) {
  using py::arg;
  c.def_property_readonly("capacity", [](Class& t) { return t.capacity(); })
      .def_property_readonly("fanout", [](Class& t) { return t.fanout(); })
      .def_property_readonly("depth", [](Class& t) { return t.depth(); })
      .def_property_readonly("device", [](Class& t) { return t.device(); })
      .def("total", [](Class& t) { py::gil_scoped_release r; return t.total(); })
      .def("largest", [](Class& t) { py::gil_scoped_release r; return t.largest(); })
      .def("rebuild", [](Class& t) { py::gil_scoped_release r; t.rebuild(); })
      .def("sample", &sample<Class>, arg("targets"))
      .def("sample_stratified", &sample_stratified<Class>, arg("uniforms"), arg("beta"))
      .def("retrieve", &retrieve<Class>, arg("indices"))
      .def("update", &update<Class>, arg("indices"), arg("deltas"))
      .def("set", &set<Class>, arg("indices"), arg("priorities"))
      .def("set_td_errors", &set_td_errors<Class>, arg("indices"), arg("td_errors"), arg("alpha"),
           arg("epsilon"))
      .def("insert", &insert<Class>, arg("start"), arg("n"), arg("priority") = py::none())
      .def("priorities", &priorities<Class>)
      .def("load", &load<Class>, arg("priorities"), arg("largest"));
}

}  // namespace device
}  // namespace accel
