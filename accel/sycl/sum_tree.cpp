// The sum tree on a SYCL device: the driver shared by all devices over this machine.
#include <memory>
#include <optional>

#include "../bindings/tree_methods.hpp"
#include "bindings.hpp"
#include "tree_pipeline.hpp"

namespace accel::sycl_backend {
namespace {

using device::Tree;

struct Form {
  bool float64;
  std::optional<Pipeline> pipeline;
};

template <class Real>
std::unique_ptr<Tree> make_tree(SyclMachine machine, int64_t capacity, int log_fanout,
                                const Form& form) {
  if (form.pipeline)
    return std::make_unique<PipelineTree<Real>>(std::move(machine), capacity, log_fanout,
                                                *form.pipeline);
  return std::make_unique<device::DeviceTree<SyclMachine, Real>>(std::move(machine), capacity,
                                                                 log_fanout);
}

std::unique_ptr<Tree> make(std::shared_ptr<Program> program, int64_t capacity, int64_t fanout,
                           const Form& form) {
  SyclMachine machine(std::move(program));
  const int log_fanout = device::log_of_fanout(fanout);
  return form.float64 ? make_tree<double>(std::move(machine), capacity, log_fanout, form)
                      : make_tree<float>(std::move(machine), capacity, log_fanout, form);
}

std::unique_ptr<Tree> make_batched(std::shared_ptr<Program> program, int64_t capacity,
                                   int64_t fanout, bool float64) {
  return make(std::move(program), capacity, fanout, {float64, {}});
}

std::unique_ptr<Tree> make_pipeline(std::shared_ptr<Program> program, int64_t capacity,
                                    int64_t fanout, bool float64, int n_levels, int64_t pipe_depth,
                                    bool concurrent) {
  return make(std::move(program), capacity, fanout,
              {float64, Pipeline{n_levels, pipe_depth, concurrent}});
}

}  // namespace

void bind_sum_tree(py::module_& m) {
  using py::arg;
  // Local: the portable backend, in another module, has a class of its own for the same type.
  py::class_<device::Tree> tree(m, "SumTree", py::module_local());
  tree.def_property_readonly("backend", [](const device::Tree&) { return "sycl"; });
  m.def("batched_tree", &make_batched, arg("program"), arg("capacity"), arg("fanout"),
        arg("float64"));
  m.def("pipeline_tree", &make_pipeline, arg("program"), arg("capacity"), arg("fanout"),
        arg("float64"), arg("n_levels"), arg("pipe_depth"), arg("concurrent"));
  bind_tree_methods<device::Tree>(tree);
}

}  // namespace accel::sycl_backend
