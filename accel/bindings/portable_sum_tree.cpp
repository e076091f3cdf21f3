// Python binding of the portable sum tree: the device's kernel bodies run by the host.
#include <memory>

#include "accel/device/host_machine.hpp"
#include "accel/device/sum_tree.hpp"
#include "tree_methods.hpp"

namespace accel {
namespace {

std::unique_ptr<device::Tree> make(int64_t capacity, int64_t fanout, const std::string& device,
                                   const std::string& dtype, uint64_t order) {
  device::checked_capacity(capacity);
  const int log_fanout = device::log_of_fanout(fanout);
  if (!device.empty() && device != "host") refuse("device must be 'host' or empty, got '" + device + "'");
  device::HostMachine machine(order);
  if (dtype == "float32")
    return std::make_unique<device::DeviceTree<device::HostMachine, float>>(std::move(machine),
                                                                            capacity, log_fanout);
  if (dtype == "float64")
    return std::make_unique<device::DeviceTree<device::HostMachine, double>>(std::move(machine),
                                                                             capacity, log_fanout);
  refuse("dtype must be 'float32' or 'float64', got '" + dtype + "'");
}

}  // namespace

void bind_portable_sum_tree(py::module_& m) {
  using py::arg;
  py::class_<device::Tree> tree(m, "PortableSumTree");
  tree.def(py::init(&make), arg("capacity"), arg("fanout") = 16, py::kw_only(),
           arg("device") = "", arg("dtype") = "float64", arg("order") = 0)
      .def_property_readonly("backend", [](const device::Tree&) { return "portable"; });
  bind_tree_methods<device::Tree>(tree);
}

}  // namespace accel
