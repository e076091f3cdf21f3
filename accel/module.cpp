// The compiled part of accel as Python sees it: each family of primitives registers itself.
#include "bindings/arguments.hpp"

PYBIND11_MODULE(_native, m) {
  m.doc() = "Compiled part of accel.";
  accel::bind_networks(m);
  accel::bind_ppo(m);
  accel::bind_off_policy(m);
  accel::bind_sum_tree(m);
  accel::bind_portable_off_policy(m);
  accel::bind_portable_sum_tree(m);
}
