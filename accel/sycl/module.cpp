// The SYCL runtime as Python sees it: devices, memory, programs and runs of their kernels.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "device.hpp"

namespace py = pybind11;

namespace accel::sycl_backend {
namespace {

using ReleaseGil = py::call_guard<py::gil_scoped_release>;
using LaunchTuple = std::tuple<std::string, int64_t, int64_t, std::vector<Argument>>;

py::bytes compile(const Device& device, const std::string& source,
                  const std::vector<std::string>& options, const std::string& kernel) {
  std::string spirv;
  {
    py::gil_scoped_release release;
    spirv = device.compile(source, options, kernel);
  }
  return spirv;
}

std::shared_ptr<Program> make_program(std::shared_ptr<Device> device, const py::bytes& spirv) {
  const std::string text = spirv;
  py::gil_scoped_release release;
  return std::make_shared<Program>(std::move(device), text);
}

std::unique_ptr<Sequence> make_sequence(std::shared_ptr<Program> program,
                                        std::vector<LaunchTuple> tuples, bool concurrent) {
  std::vector<Launch> launches;
  for (auto& [kernel, n_groups, n_items, arguments] : tuples)
    launches.push_back({std::move(kernel), n_groups, n_items, std::move(arguments)});
  return std::make_unique<Sequence>(std::move(program), std::move(launches), concurrent);
}

py::buffer_info view(const Memory& memory) {
  return {memory.data(), 1, py::format_descriptor<uint8_t>::format(),
          static_cast<py::ssize_t>(memory.n_bytes())};
}

}  // namespace
}  // namespace accel::sycl_backend

PYBIND11_MODULE(_sycl, m) {
  using namespace accel::sycl_backend;
  using py::arg;
  m.doc() = "The SYCL runtime: devices, memory, programs and runs of their kernels.";
  m.def("list_devices", &list_devices);
  py::class_<Device, std::shared_ptr<Device>>(m, "Device")
      .def(py::init<const std::string&>(), arg("kind"))
      .def_property_readonly("name", &Device::name)
      .def_property_readonly("has_float64", &Device::has_float64)
      .def("compile", &compile, arg("source"), arg("options"), arg("kernel"));
  py::class_<Memory, std::shared_ptr<Memory>>(m, "Memory", py::buffer_protocol())
      .def(py::init<std::shared_ptr<Device>, std::size_t>(), arg("device"), arg("n_bytes"))
      .def_buffer(&view);
  py::class_<Program, std::shared_ptr<Program>>(m, "Program")
      .def(py::init(&make_program), arg("device"), arg("spirv"));
  py::class_<Sequence>(m, "Sequence")
      .def(py::init(&make_sequence), arg("program"), arg("launches"), arg("concurrent") = false)
      .def("run", &Sequence::run, ReleaseGil());
}
