// The off-policy learner on a SYCL device: the driver shared by all devices over this machine.
#include <memory>
#include <optional>

#include "../bindings/device_off_policy.hpp"
#include "../bindings/device_options.hpp"
#include "bindings.hpp"
#include "learner_pipeline.hpp"

namespace accel::sycl_backend {
namespace {

using SyclLearner = device::DeviceLearner<SyclMachine>;

std::unique_ptr<SyclLearner> make_batched(std::shared_ptr<Program> program,
                                          const py::object& options,
                                          const std::optional<py::array>& actor_layers,
                                          const py::array& critic_layers, const py::object& seed,
                                          int64_t n_pipelines) {
  const auto read = device::read_learner(options, actor_layers, critic_layers, seed, n_pipelines);
  return std::make_unique<SyclLearner>(SyclMachine(std::move(program)), read.options, read.actor,
                                       read.critic);
}

// The layers are checked to be a chain, which the program was compiled for.
std::unique_ptr<SyclLearner> make_pipeline(std::shared_ptr<Program> program,
                                           const py::object& options,
                                           const py::array& critic_layers, int64_t n_pipelines,
                                           int64_t row_depth, bool concurrent) {
  const auto read = device::to_device(read_options(options), 0, n_pipelines);
  const Network critic = read_network(critic_layers, "critic_layers");
  return std::make_unique<PipelineLearner>(SyclMachine(std::move(program)), read, critic,
                                           row_depth, concurrent);
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
  m.def("pipeline_learner", &make_pipeline, arg("program"), arg("options"), arg("critic_layers"),
        arg("n_pipelines"), arg("row_depth"), arg("concurrent"));
}

}  // namespace accel::sycl_backend
