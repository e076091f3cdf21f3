// Checks of NumPy arguments: the message names the field, the rule and what came.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace accel {

namespace py = pybind11;

constexpr int64_t kAnyLength = -1;

inline std::string describe(const py::array& array) {
  return py::str(array.dtype()).cast<std::string>() + " " +
         py::str(array.attr("shape")).cast<std::string>();
}

inline std::string describe_shape(const std::vector<int64_t>& shape) {
  std::string text = "(";
  for (int64_t n : shape) text += (n == kAnyLength ? "n" : std::to_string(n)) + ", ";
  return text + ")";
}

// A C-contiguous array of T with the given shape.
template <class T>
const T* checked(const py::array& array, const char* field, const std::vector<int64_t>& shape) {
  bool right = py::isinstance<py::array_t<T>>(array) && array.ndim() == py::ssize_t(shape.size()) &&
               (array.flags() & py::array::c_style) != 0;
  for (size_t i = 0; right && i < shape.size(); ++i)
    right = shape[i] == kAnyLength || shape[i] == array.shape(py::ssize_t(i));
  if (!right)
    throw std::invalid_argument(
        std::string(field) + " must be a C-contiguous array of " +
        py::str(py::dtype::of<T>()).cast<std::string>() + " " + describe_shape(shape) + ", got " +
        describe(array) + ((array.flags() & py::array::c_style) != 0 ? "" : ", not contiguous"));
  return static_cast<const T*>(array.data());
}

template <class T>
T* checked_writeable(py::array& array, const char* field, const std::vector<int64_t>& shape) {
  checked<T>(array, field, shape);
  if (!array.writeable())
    throw std::invalid_argument(std::string(field) + " must be writeable, got a read-only array");
  return static_cast<T*>(array.mutable_data());
}

template <class T>
py::array_t<T> to_array(const T* data, size_t n) {
  return py::array_t<T>(py::ssize_t(n), data);
}

}  // namespace accel
