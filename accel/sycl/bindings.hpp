// What each part of the extension registers.
#pragma once

#include <pybind11/pybind11.h>

#include "device.hpp"

namespace accel::sycl_backend {

namespace py = pybind11;

void bind_sum_tree(py::module_& m);
void bind_off_policy(py::module_& m);

}  // namespace accel::sycl_backend
