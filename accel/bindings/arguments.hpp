// Checks that several bindings share, and what each of them registers.
#pragma once

#include <string>

#include "accel/layers.hpp"
#include "accel/numpy.hpp"

namespace accel {

void bind_networks(py::module_& m);
void bind_ppo(py::module_& m);
void bind_off_policy(py::module_& m);
void bind_sum_tree(py::module_& m);
void bind_portable_off_policy(py::module_& m);
void bind_portable_sum_tree(py::module_& m);

inline Network read_network(const py::array& layers, const char* field) {
  const int32_t* table = checked<int32_t>(layers, field, {kAnyLength, kLayerColumns});
  return make_network(table, layers.shape(0), field);
}

[[noreturn]] inline void refuse(const std::string& text) { throw std::invalid_argument(text); }

inline void require(bool holds, const char* field, const char* rule, double value) {
  if (!holds)
    refuse(std::string(field) + " must be " + rule + ", got " +
           py::str(py::float_(value)).cast<std::string>());
}

}  // namespace accel
