// The off-policy learner on a SYCL device: the driver shared by all devices over this machine.
#include "accel/device/off_policy.hpp"

#include <memory>
#include <optional>

#include "../bindings/device_off_policy.hpp"
#include "../bindings/device_options.hpp"
#include "bindings.hpp"
#include "machine.hpp"

namespace accel::sycl_backend {
namespace {

using SyclLearner = device::DeviceLearner<SyclMachine>;

std::unique_ptr<SyclLearner> make_batched(std::shared_ptr<Program> program,
                                          const py::object& options,
                                          const std::optional<py::array>& actor_layers,
                                          const py::array& critic_layers, uint64_t seed,
                                          int64_t n_pipelines) {
  const device::LearnerOptions read = device::read_options(options, seed, n_pipelines);
  const Network actor = device::read_actor(actor_layers, read.numbers.algorithm);
  const Network critic = device::read_critic(critic_layers, actor, read.numbers.algorithm);
  return std::make_unique<SyclLearner>(SyclMachine(std::move(program)), read, actor, critic);
}

}  // namespace

void bind_off_policy(py::module_& m) {
  using py::arg;
  device::bind_step(m, "LearningStep");
  py::class_<SyclLearner> learner(m, "OffPolicyLearner", py::module_local());
  learner.def_property_readonly("backend", [](const SyclLearner&) { return "sycl"; });
  device::bind_learner_methods<SyclLearner>(learner);
  m.def("batched_learner", &make_batched, arg("program"), arg("options"),
        arg("actor_layers").none(true), arg("critic_layers"), arg("seed"), arg("n_pipelines"));
}

}  // namespace accel::sycl_backend
