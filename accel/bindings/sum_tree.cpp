// Python bindings of the CPU's sum tree: checks of arguments here, arithmetic in cpu/.
#include "accel/sum_tree.hpp"

#include <cmath>
#include <optional>

#include "accel/numbers.hpp"
#include "arguments.hpp"

namespace accel {
namespace {

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

[[noreturn]] void refuse_value(const std::string& field, const std::string& rule, double value) {
  refuse(field + " must be " + rule + ", got " + to_text(value));
}

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

const int64_t* checked_rows(const SumTree& tree, const py::array& indices) {
  const int64_t* rows = checked_vector<int64_t>(indices, "indices");
  const uint64_t capacity = uint64_t(tree.capacity());
  uint64_t largest = 0;
  for (int64_t i = 0; i < indices.shape(0); ++i)
    largest = uint64_t(rows[i]) > largest ? uint64_t(rows[i]) : largest;
  if (largest < capacity) return rows;
  for (int64_t i = 0; i < indices.shape(0); ++i)
    if (uint64_t(rows[i]) >= capacity)
      refuse("indices[" + std::to_string(i) + "] must be 0 to " + std::to_string(capacity - 1) +
             ", got " + std::to_string(rows[i]));
  return rows;
}

void check_priorities(const SumTree& tree, const double* priorities, int64_t n,
                      const char* field = "priorities") {
  const double most = tree.most();
  if (tree.largest_of(priorities, n) <= most) return;
  check_each(priorities, n, field, ("at least 0 and at most " + to_text(most)).c_str(),
             [most](double p) { return p >= 0 && p <= most; });
}

bool is_finite(double x) { return std::fabs(x) <= 1.7976931348623157e308; }

void check_coefficient(const char* field, double value) {
  require(value >= 0 && is_finite(value), field, "at least 0 and finite", value);
}

py::tuple sample(const SumTree& tree, const py::array& targets) {
  const double* x = checked_vector<double>(targets, "targets");
  const int64_t n = targets.shape(0);
  check_each(x, n, "targets", "at least 0 and finite",
             [](double t) { return t >= 0 && t <= 1.7976931348623157e308; });
  int64_t* to_rows;
  double* to_priorities;
  py::array rows = new_vector(n, &to_rows), priorities = new_vector(n, &to_priorities);
  {
    py::gil_scoped_release release;
    tree.sample(x, n, to_rows, to_priorities);
  }
  return py::make_tuple(std::move(rows), std::move(priorities));
}

py::tuple sample_stratified(const SumTree& tree, const py::array& uniforms, double beta) {
  const double* u = checked_vector<double>(uniforms, "uniforms");
  const int64_t n = uniforms.shape(0);
  check_each(u, n, "uniforms", "at least 0 and below 1",
             [](double x) { return x >= 0 && x < 1; });
  check_coefficient("beta", beta);
  int64_t* to_rows;
  float* to_weights;
  py::array rows = new_vector(n, &to_rows), weights = new_vector(n, &to_weights);
  {
    py::gil_scoped_release release;
    tree.sample_stratified(u, n, beta, to_rows, to_weights);
  }
  return py::make_tuple(std::move(rows), std::move(weights));
}

py::array retrieve(const SumTree& tree, const py::array& indices) {
  const int64_t* rows = checked_rows(tree, indices);
  const int64_t n = indices.shape(0);
  double* to;
  py::array priorities = new_vector(n, &to);
  py::gil_scoped_release release;
  tree.retrieve(rows, n, to);
  return priorities;
}

void update(SumTree& tree, const py::array& indices, const py::array& deltas) {
  const int64_t* rows = checked_rows(tree, indices);
  const int64_t n = indices.shape(0);
  const double* values = checked_vector<double>(deltas, "deltas", n);
  check_each(values, n, "deltas", "finite", is_finite);
  py::gil_scoped_release release;
  tree.update(rows, values, n);
}

void set(SumTree& tree, const py::array& indices, const py::array& priorities) {
  const int64_t* rows = checked_rows(tree, indices);
  const int64_t n = indices.shape(0);
  const double* values = checked_vector<double>(priorities, "priorities", n);
  check_priorities(tree, values, n);
  py::gil_scoped_release release;
  tree.set(rows, values, n);
}

void set_td_errors(SumTree& tree, const py::array& indices, const py::array& td_errors,
                   double alpha, double epsilon) {
  const int64_t* rows = checked_rows(tree, indices);
  const int64_t n = indices.shape(0);
  const float* errors = checked_vector<float>(td_errors, "td_errors", n);
  check_each(errors, n, "td_errors", "finite",
             [](float x) { return std::fabs(x) <= 3.40282347e38f; });
  check_coefficient("alpha", alpha);
  check_coefficient("epsilon", epsilon);
  py::gil_scoped_release release;
  tree.set_td_errors(rows, errors, n, alpha, epsilon);
}

void insert(SumTree& tree, int64_t start, int64_t n, const std::optional<double>& priority) {
  const int64_t capacity = tree.capacity();
  if (start < 0 || start >= capacity)
    refuse("start must be 0 to " + std::to_string(capacity - 1) + ", got " + std::to_string(start));
  if (n < 0 || n > capacity)
    refuse("n must be 0 to " + std::to_string(capacity) + ", got " + std::to_string(n));
  if (priority && !(*priority >= 0 && *priority <= tree.most()))
    refuse_value("priority", "at least 0 and at most " + to_text(tree.most()), *priority);
  py::gil_scoped_release release;
  tree.insert(start, n, priority ? &*priority : nullptr);
}

py::array_t<double> priorities(const SumTree& tree) {
  py::array_t<double> all(tree.capacity());
  double* to = all.mutable_data();
  py::gil_scoped_release release;
  tree.copy_priorities(to);
  return all;
}

void load(SumTree& tree, const py::array& priorities, double largest) {
  const int64_t n = tree.capacity();
  const double* values = checked_vector<double>(priorities, "priorities", n);
  check_priorities(tree, values, n);
  if (!(largest > 0 && largest <= tree.most()))
    refuse_value("largest", "positive and at most " + to_text(tree.most()), largest);
  double high = 0.0;
  for (int64_t i = 0; i < n; ++i) high = values[i] > high ? values[i] : high;
  if (largest < high)
    refuse_value("largest", "at least the largest priority " + to_text(high), largest);
  py::gil_scoped_release release;
  tree.load(values, largest);
}

std::unique_ptr<SumTree> make_tree(int64_t capacity, int fanout, const std::string& device,
                                   int n_threads, const std::string& variant) {
  if (capacity < 1 || capacity > kMaxTreeCapacity)
    refuse("capacity must be 1 to 2^40, got " + std::to_string(capacity));
  if (fanout < 2 || fanout > 64 || (fanout & (fanout - 1)) != 0)
    refuse("fanout must be a power of two, 2 to 64, got " + std::to_string(fanout));
  if (!device.empty() && device != "cpu") refuse("device must be empty or cpu, got " + device);
  require(n_threads >= 1 && n_threads <= 1024, "n_threads", "1 to 1024", n_threads);
  return std::make_unique<SumTree>(capacity, fanout, n_threads, select_kernels(variant.c_str()));
}

template <class Result>
Result without_gil(const SumTree& tree, Result (SumTree::*method)() const) {
  py::gil_scoped_release release;
  return (tree.*method)();
}

}  // namespace

void bind_sum_tree(py::module_& m) {
  using py::arg;
  py::class_<SumTree>(m, "SumTree")
      .def(py::init(&make_tree), arg("capacity"), arg("fanout") = 16, py::kw_only(),
           arg("device") = "", arg("n_threads") = 1, arg("variant") = "")
      .def_property_readonly("capacity", &SumTree::capacity)
      .def_property_readonly("fanout", &SumTree::fanout)
      .def_property_readonly("depth", &SumTree::depth)
      .def_property_readonly("backend", [](const SumTree&) { return "cpu"; })
      .def_property_readonly("device", [](const SumTree&) { return "cpu"; })
      .def_property_readonly("n_threads", &SumTree::n_threads)
      .def_property_readonly("variant", [](const SumTree& tree) { return tree.kernels().name; })
      .def("total", [](const SumTree& tree) { return without_gil(tree, &SumTree::total); })
      .def("largest", [](const SumTree& tree) { return without_gil(tree, &SumTree::largest); })
      .def("sample", &sample, arg("targets"))
      .def("sample_stratified", &sample_stratified, arg("uniforms"), arg("beta"))
      .def("retrieve", &retrieve, arg("indices"))
      .def("update", &update, arg("indices"), arg("deltas"))
      .def("set", &set, arg("indices"), arg("priorities"))
      .def("set_td_errors", &set_td_errors, arg("indices"), arg("td_errors"), arg("alpha"),
           arg("epsilon"))
      .def("insert", &insert, arg("start"), arg("n"), arg("priority") = py::none())
      .def("rebuild", &SumTree::rebuild, py::call_guard<py::gil_scoped_release>())
      .def("priorities", &priorities)
      .def("load", &load, arg("priorities"), arg("largest"));
}

}  // namespace accel
