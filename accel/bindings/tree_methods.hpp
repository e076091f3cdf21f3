// Python methods of the sum trees of all backends: checks of arguments here, so that a bad call
// changes nothing.
#pragma once

#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "accel/numbers.hpp"
#include "arguments.hpp"

namespace accel {

// As `checked`, in a few nanoseconds where the array is right.
template <class T>
const T* checked_vector(const py::array& array, const char* field, int64_t n = kAnyLength) {
  const bool right = array.ndim() == 1 && (array.flags() & py::array::c_style) != 0 &&
                     (n == kAnyLength || array.shape(0) == n) &&
                     array.dtype().num() == py::detail::npy_format_descriptor<T>::value &&
                     array.dtype().byteorder() == '=';
  return right ? static_cast<const T*>(array.data()) : checked<T>(array, field, {n});
}

// An uninitialised array (n,), in a third of the time that py::array_t takes.
template <class T>
py::array new_vector(int64_t n, T** data) {
  auto& numpy = py::detail::npy_api::get();
  const Py_intptr_t shape[] = {Py_intptr_t(n)};
  PyObject* type = numpy.PyArray_DescrFromType_(py::detail::npy_format_descriptor<T>::value);
  PyObject* made = numpy.PyArray_NewFromDescr_(numpy.PyArray_Type_, type, 1, shape, nullptr,
                                               nullptr, 0, nullptr);
  if (made == nullptr) throw py::error_already_set();
  py::array vector = py::reinterpret_steal<py::array>(made);
  *data = static_cast<T*>(vector.mutable_data());
  return vector;
}

[[noreturn]] inline void refuse_value(const std::string& field, const std::string& rule,
                                      double value) {
  refuse(field + " must be " + rule + ", got " + to_text(value));
}

inline std::string at_most(double most) { return "at least 0 and at most " + to_text(most); }

// All values at once first: the loop has no exit, so that it is vectorised.
template <class T, class Right>
void check_each(const T* values, int64_t n, const char* field, const char* rule, Right right) {
  bool all = true;
  for (int64_t i = 0; i < n; ++i) all &= right(values[i]);
  if (all) return;
  for (int64_t i = 0; i < n; ++i)
    if (!right(values[i]))
      refuse_value(std::string(field) + "[" + std::to_string(i) + "]", rule, double(values[i]));
}

template <class T>
bool is_finite(T x) { return std::fabs(x) <= std::numeric_limits<T>::max(); }

inline const int64_t* checked_rows(const py::array& indices, int64_t capacity) {
  const int64_t* rows = checked_vector<int64_t>(indices, "indices");
  // All bits together are no smaller than any row: enough for most, and vectorised.
  uint64_t bits = 0;
  for (int64_t i = 0; i < indices.shape(0); ++i) bits |= uint64_t(rows[i]);
  if (bits < uint64_t(capacity)) return rows;  // negative ones are larger than any
  for (int64_t i = 0; i < indices.shape(0); ++i)
    if (uint64_t(rows[i]) >= uint64_t(capacity))
      refuse("indices[" + std::to_string(i) + "] must be 0 to " + std::to_string(capacity - 1) +
             ", got " + std::to_string(rows[i]));
  return rows;
}

inline const double* checked_priorities(const py::array& priorities, int64_t n, double most) {
  const double* values = checked_vector<double>(priorities, "priorities", n);
  const auto right = [most](double p) { return p >= 0 && p <= most; };
  bool all = true;  // the rule's text takes longer than most checks
  for (int64_t i = 0; i < n; ++i) all &= right(values[i]);
  if (!all) check_each(values, n, "priorities", at_most(most).c_str(), right);
  return values;
}

inline void check_coefficient(const char* field, double value) {
  require(value >= 0 && is_finite(value), field, "at least 0 and finite", value);
}

template <class Tree>
py::tuple sample(Tree& tree, const py::array& targets) {
  const double* x = checked_vector<double>(targets, "targets");
  const int64_t n = targets.shape(0);
  check_each(x, n, "targets", "at least 0 and finite",
             [](double t) { return t >= 0 && is_finite(t); });
  int64_t* to_rows;
  double* to_priorities;
  py::array rows = new_vector(n, &to_rows), priorities = new_vector(n, &to_priorities);
  without_gil([&] { tree.sample(x, n, to_rows, to_priorities); });
  return py::make_tuple(std::move(rows), std::move(priorities));
}

template <class Tree>
py::tuple sample_stratified(Tree& tree, const py::array& uniforms, double beta) {
  const double* u = checked_vector<double>(uniforms, "uniforms");
  const int64_t n = uniforms.shape(0);
  check_each(u, n, "uniforms", "at least 0 and below 1",
             [](double x) { return x >= 0 && x < 1; });
  check_coefficient("beta", beta);
  int64_t* to_rows;
  float* to_weights;
  py::array rows = new_vector(n, &to_rows), weights = new_vector(n, &to_weights);
  without_gil([&] { tree.sample_stratified(u, n, beta, to_rows, to_weights); });
  return py::make_tuple(std::move(rows), std::move(weights));
}

template <class Tree>
py::array retrieve(Tree& tree, const py::array& indices) {
  const int64_t* rows = checked_rows(indices, tree.capacity());
  const int64_t n = indices.shape(0);
  double* to;
  py::array priorities = new_vector(n, &to);
  without_gil([&] { tree.retrieve(rows, n, to); });
  return priorities;
}

template <class Tree>
void update(Tree& tree, const py::array& indices, const py::array& deltas) {
  const int64_t* rows = checked_rows(indices, tree.capacity());
  const int64_t n = indices.shape(0);
  const double* values = checked_vector<double>(deltas, "deltas", n);
  check_each(values, n, "deltas", "finite", [](double x) { return is_finite(x); });
  without_gil([&] { tree.update(rows, values, n); });
}

template <class Tree>
void set(Tree& tree, const py::array& indices, const py::array& priorities) {
  const int64_t* rows = checked_rows(indices, tree.capacity());
  const int64_t n = indices.shape(0);
  const double* values = checked_priorities(priorities, n, tree.most());
  without_gil([&] { tree.set(rows, values, n); });
}

template <class Tree>
void set_td_errors(Tree& tree, const py::array& indices, const py::array& td_errors, double alpha,
                   double epsilon) {
  const int64_t* rows = checked_rows(indices, tree.capacity());
  const int64_t n = indices.shape(0);
  const float* errors = checked_vector<float>(td_errors, "td_errors", n);
  check_each(errors, n, "td_errors", "finite", [](float x) { return is_finite(x); });
  check_coefficient("alpha", alpha);
  check_coefficient("epsilon", epsilon);
  without_gil([&] { tree.set_td_errors(rows, errors, n, alpha, epsilon); });
}

template <class Tree>
void insert(Tree& tree, int64_t start, int64_t n, const std::optional<double>& priority) {
  const int64_t capacity = tree.capacity();
  if (start < 0 || start >= capacity)
    refuse("start must be 0 to " + std::to_string(capacity - 1) + ", got " + std::to_string(start));
  if (n < 0 || n > capacity)
    refuse("n must be 0 to " + std::to_string(capacity) + ", got " + std::to_string(n));
  if (priority && !(*priority >= 0 && *priority <= tree.most()))
    refuse_value("priority", at_most(tree.most()), *priority);
  without_gil([&] { tree.insert(start, n, priority ? &*priority : nullptr); });
}

template <class Tree>
py::array priorities(Tree& tree) {
  double* to;
  py::array all = new_vector(tree.capacity(), &to);
  without_gil([&] { tree.priorities(to); });
  return all;
}

template <class Tree>
void load(Tree& tree, const py::array& priorities, double largest) {
  const int64_t n = tree.capacity();
  const double* values = checked_priorities(priorities, n, tree.most());
  const double high = *std::max_element(values, values + n);
  if (!(largest > 0 && largest >= high && largest <= tree.most()))
    refuse_value("largest", "positive, at least the largest priority " + to_text(high) +
                                " and at most " + to_text(tree.most()), largest);
  without_gil([&] { tree.load(values, largest); });
}

// All of accel.interfaces.SumTree but the backend's name.
template <class Tree, class PyClass>
void bind_tree_methods(PyClass& c) {
  using py::arg;
  c.def_property_readonly("capacity", [](Tree& t) { return t.capacity(); })
      .def_property_readonly("fanout", [](Tree& t) { return t.fanout(); })
      .def_property_readonly("depth", [](Tree& t) { return t.depth(); })
      .def_property_readonly("device", [](Tree& t) { return t.device(); })
      .def("total", [](Tree& t) { return without_gil([&] { return t.total(); }); })
      .def("largest", [](Tree& t) { return without_gil([&] { return t.largest(); }); })
      .def("rebuild", [](Tree& t) { without_gil([&] { t.rebuild(); }); })
      .def("sample", &sample<Tree>, arg("targets"))
      .def("sample_stratified", &sample_stratified<Tree>, arg("uniforms"), arg("beta"))
      .def("retrieve", &retrieve<Tree>, arg("indices"))
      .def("update", &update<Tree>, arg("indices"), arg("deltas"))
      .def("set", &set<Tree>, arg("indices"), arg("priorities"))
      .def("set_td_errors", &set_td_errors<Tree>, arg("indices"), arg("td_errors"), arg("alpha"),
           arg("epsilon"))
      .def("insert", &insert<Tree>, arg("start"), arg("n"), arg("priority") = py::none())
      .def("priorities", &priorities<Tree>)
      .def("load", &load<Tree>, arg("priorities"), arg("largest"));
}

}  // namespace accel
