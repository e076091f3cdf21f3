// A work-group as the kernel bodies see it (see accel/portable/block.hpp).
#define ACCEL_PORTABLE_SYCL
#ifndef FANOUT
#define FANOUT 2  // of the sum tree; learners have none
#endif
#include "accel/portable/block.hpp"

namespace accel {
namespace portable {

template <int kBlockThreads>
class WorkGroup {
 public:
  static constexpr int kThreads = kBlockThreads;

  template <class T, int n>
  using Registers = OwnRegisters<T, n>;

  explicit WorkGroup(float* shared)
      : item_(sycl::ext::oneapi::this_work_item::get_nd_item<1>()),
        shared_(shared + index() * kSharedFloats) {}

  int index() const { return int(item_.get_group_linear_id()); }
  int n_blocks() const { return int(item_.get_group_range(0)); }
  float* shared() const { return shared_; }
  // Device: the bodies' blocks hand on results through global memory.
  void barrier() const { sycl::group_barrier(item_.get_group(), sycl::memory_scope::device); }

  template <class Function>
  void threads(Function function) const { function(int(item_.get_local_linear_id())); }

  // A work-item does a whole group's lanes, in loops of a length known here.
  template <class Function>
  void groups(int64_t n, int, Function function) const {
    Forward order;
    ArrayLanes<FANOUT> lanes(FANOUT, order);
    for (int64_t i = int64_t(item_.get_global_linear_id()); i < n;
         i += int64_t(item_.get_global_range(0)))
      function(lanes, i);
  }

 private:
  sycl::nd_item<1> item_;
  float* shared_;
};

}  // namespace portable
}  // namespace accel

#define BODY_KERNEL(name, ...) \
  ND_RANGE_KERNEL void name(__VA_ARGS__ body, float* shared) { \
    accel::portable::WorkGroup<__VA_ARGS__::kThreads> block(shared); \
    body(block); \
  }
