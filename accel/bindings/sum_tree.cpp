// Python binding of the CPU's sum tree.
#include "accel/sum_tree.hpp"

#include <memory>

#include "tree_methods.hpp"

namespace accel {
namespace {

std::unique_ptr<SumTree> make_tree(int64_t capacity, int fanout, const std::string& device,
                                   int n_threads, const std::string& variant) {
  if (capacity < 1 || capacity > kMaxTreeCapacity)
    refuse("capacity must be 1 to 2^40, got " + std::to_string(capacity));
  if (fanout < 2 || fanout > 64 || (fanout & (fanout - 1)) != 0)
    refuse("fanout must be a power of two from 2 to 64, got " + std::to_string(fanout));
  if (!device.empty() && device != "cpu")
    refuse("device must be 'cpu' or empty, got '" + device + "'");
  require(n_threads >= 1 && n_threads <= 1024, "n_threads", "1 to 1024", n_threads);
  return std::make_unique<SumTree>(capacity, fanout, n_threads, select_kernels(variant.c_str()));
}

}  // namespace

void bind_sum_tree(py::module_& m) {
  using py::arg;
  py::class_<SumTree> tree(m, "SumTree");
  tree.def(py::init(&make_tree), arg("capacity"), arg("fanout") = 16, py::kw_only(),
           arg("device") = "", arg("n_threads") = 1, arg("variant") = "")
      .def_property_readonly("backend", [](const SumTree&) { return "cpu"; })
      .def_property_readonly("n_threads", &SumTree::n_threads)
      .def_property_readonly("variant", [](const SumTree& t) { return t.kernels().name; });
  bind_tree_methods<SumTree>(tree);
}

}  // namespace accel
