// SYCL devices, programs and the primitives on them as Python sees them.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "../bindings/arguments.hpp"
#include "bindings.hpp"

namespace accel::sycl_backend {
namespace {

py::bytes compile(const Device& device, const std::string& source,
                  const std::vector<std::string>& options, const std::string& kernel) {
  std::string spirv;
  {
    const GilReleased released;
    spirv = device.compile(source, options, kernel);
  }
  return spirv;
}

std::shared_ptr<Program> make_program(std::shared_ptr<Device> device, const py::bytes& code,
                                      bool is_binary) {
  const std::string text = code;
  const GilReleased released;
  return std::make_shared<Program>(std::move(device), text, is_binary);
}

}  // namespace
}  // namespace accel::sycl_backend

PYBIND11_MODULE(_sycl, m) {
  using namespace accel::sycl_backend;
  using py::arg;
  m.doc() = "SYCL devices, programs and the primitives on them.";
  m.def("list_devices", &list_devices);
  py::class_<Device, std::shared_ptr<Device>>(m, "Device")
      .def(py::init<const std::string&>(), arg("kind"))
      .def_property_readonly("name", &Device::name)
      .def_property_readonly("driver", &Device::driver)
      .def_property_readonly("has_float64", &Device::has_float64)
      .def("compile", &compile, arg("source"), arg("options"), arg("kernel"));
  py::class_<Program, std::shared_ptr<Program>>(m, "Program")
      .def(py::init(&make_program), arg("device"), arg("code"), arg("is_binary"))
      .def("binary", [](const Program& program) { return py::bytes(program.binary()); });
  bind_sum_tree(m);
  bind_off_policy(m);
}
