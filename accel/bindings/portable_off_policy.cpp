// Python binding of the portable off-policy learner: the device's kernel bodies run by the host.
#include <memory>

#include "accel/device/host_machine.hpp"
#include "accel/device/off_policy.hpp"
#include "device_off_policy.hpp"
#include "device_options.hpp"

namespace accel {
namespace {

using PortableLearner = device::DeviceLearner<device::HostMachine>;

std::unique_ptr<PortableLearner> make(const py::object& options,
                                      const std::optional<py::array>& actor_layers,
                                      const py::array& critic_layers, const py::object& seed,
                                      int64_t n_pipelines, const std::string& device,
                                      uint64_t order) {
  if (!device.empty() && device != "host") refuse("device must be 'host' or empty, got '" + device + "'");
  const auto read = device::read_learner(options, actor_layers, critic_layers, seed, n_pipelines);
  return std::make_unique<PortableLearner>(device::HostMachine(order), read.options, read.actor,
                                           read.critic);
}

}  // namespace

void bind_portable_off_policy(py::module_& m) {
  using py::arg;
  device::bind_step(m, "PortableLearningStep");
  py::class_<PortableLearner> learner(m, "PortableOffPolicyLearner");
  learner
      .def(py::init(&make), arg("options"), arg("actor_layers").none(true), arg("critic_layers"),
           py::kw_only(), arg("seed") = 0, arg("n_pipelines") = 4, arg("device") = "",
           arg("order") = 0)
      .def_property_readonly("backend", [](const PortableLearner&) { return "portable"; });
  device::bind_learner_methods<PortableLearner>(learner);
}

}  // namespace accel
