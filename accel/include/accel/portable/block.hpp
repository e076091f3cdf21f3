// A block of threads as the kernel bodies see it, here run in turn by one thread of the host:
//
//     block.threads(f)           f(thread) by each thread, thread from 0 to kThreads - 1
//     block.barrier()            what was written before it is seen after it, within the block
//     block.groups(n, log, f)    f(lanes, i) for this block's share of 0..n - 1 of the whole grid,
//                                lanes a group of 2^log; an i may come twice: f must then store the
//                                same again
//     block.shared()             kSharedFloats floats of the block's own
//     Block::Registers<T, n>     n values of each thread's own that outlive a call of `threads`
//     block.index(), n_blocks()  which block of how many
#pragma once

#include "accel/portable/lanes.hpp"
#include "accel/portable/order.hpp"
#include "accel/portable/target.hpp"

namespace accel {
namespace portable {

// f(i) for i from 0 to n - 1, spread over the threads of one block.
template <class Block, class Function>
ACCEL_DEVICE inline void parallel(Block& block, int n, Function function) {
  block.threads([&](int thread) {
    for (int i = thread; i < n; i += Block::kThreads) function(i);
  });
}

// The same over the threads of all blocks.
template <class Block, class Function>
ACCEL_DEVICE inline void grid_parallel(Block& block, int64_t n, Function function) {
  const int64_t step = int64_t(block.n_blocks()) * Block::kThreads;
  block.threads([&](int thread) {
    for (int64_t i = int64_t(block.index()) * Block::kThreads + thread; i < n; i += step)
      function(i);
  });
}

constexpr int kSharedFloats = 6144;

// Block::Registers where each thread has a block object of its own.
template <class T, int n>
class OwnRegisters {
 public:
  ACCEL_DEVICE T* of(int) { return values_; }

 private:
  T values_[n];
};

template <int kBlockThreads>
class HostBlock {
 public:
  static constexpr int kThreads = kBlockThreads;

  template <class T, int n>
  class Registers {
   public:
    T* of(int thread) { return values_[thread]; }

   private:
    T values_[kThreads][n];
  };

  HostBlock(int index, int n_blocks, float* shared, Shuffled& order)
      : index_(index), n_blocks_(n_blocks), shared_(shared), order_(order) {}

  int index() const { return index_; }
  int n_blocks() const { return n_blocks_; }
  float* shared() const { return shared_; }
  void barrier() const {}

  template <class Function>
  void threads(Function function) { order_.visit(kThreads, function); }

  template <class Function>
  void groups(int64_t n, int log_fanout, Function function) {
    ArrayLanes<kMostChildren, Shuffled> lanes(1 << log_fanout, order_);
    const int share = n > index_ ? int((n - index_ - 1) / n_blocks_ + 1) : 0;
    order_.visit(share, [&](int i) { function(lanes, index_ + int64_t(i) * n_blocks_); });
  }

 private:
  int index_, n_blocks_;
  float* shared_;
  Shuffled& order_;
};

}  // namespace portable
}  // namespace accel
