// The sum tree on a SYCL device: the driver shared by all devices over this machine.
#include "accel/device/sum_tree.hpp"

#include "../bindings/device_sum_tree.hpp"
#include "bindings.hpp"
#include "machine.hpp"

namespace accel::sycl_backend {
namespace {

template <class Real>
std::unique_ptr<device::Tree> make_tree(std::shared_ptr<Program> program, int64_t capacity,
                                        int log_fanout) {
  return std::make_unique<device::DeviceTree<SyclMachine, Real>>(SyclMachine(std::move(program)),
                                                                 capacity, log_fanout);
}

std::unique_ptr<device::Tree> make(std::shared_ptr<Program> program, int64_t capacity,
                                   int64_t fanout, bool float64) {
  device::checked_capacity(capacity);
  const int log_fanout = device::log_of_fanout(fanout);
  return float64 ? make_tree<double>(std::move(program), capacity, log_fanout)
                 : make_tree<float>(std::move(program), capacity, log_fanout);
}

}  // namespace

void bind_sum_tree(py::module_& m) {
  using py::arg;
  // Local: the portable backend, in another module, has a class of its own for the same type.
  py::class_<device::Tree> tree(m, "SumTree", py::module_local());
  tree.def(py::init(&make), arg("program"), arg("capacity"), arg("fanout"), arg("float64"))
      .def_property_readonly("backend", [](const device::Tree&) { return "sycl"; });
  device::bind_tree_methods<device::Tree>(tree);
}

}  // namespace accel::sycl_backend
