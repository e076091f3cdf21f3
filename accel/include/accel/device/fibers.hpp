// Threads of a block as fibers of one thread of the host: each runs on its own until it comes to a
// barrier, then another one, in any order. So a body sees what it would see on a device where threads
// run apart, and a missing barrier shows in its results.
#pragma once

#include <ucontext.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "accel/portable/block.hpp"

namespace accel {
namespace device {

class Fibers {
 public:
  using Function = std::function<void(int)>;

  // function(thread) for each of n threads, which may call `barrier`.
  void run(int n, const Function& function, portable::Shuffled& order) {
    while (fibers_.size() < size_t(n)) fibers_.push_back(std::make_unique<Fiber>());
    function_ = &function;
    for (int i = 0; i < n; ++i) prepare(*fibers_[size_t(i)]);
    for (int n_done = 0; n_done < n;) {
      n_done = 0;
      order.visit(n, [&](int i) { n_done += resume(i) ? 1 : 0; });
      if (n_done != 0 && n_done != n)
        throw std::logic_error("some threads of a block end where others wait at a barrier");
    }
  }

  void barrier() { swapcontext(&fibers_[size_t(running_)]->context, &scheduler_); }

 private:
  static constexpr size_t kStack = 64 * 1024;  // [bytes]

  struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack{new char[kStack]};
    bool is_done = false;
  };

  void prepare(Fiber& fiber) {
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStack;
    fiber.context.uc_link = &scheduler_;
    fiber.is_done = false;
    // makecontext passes on whole numbers of 32 bits only.
    const auto self = reinterpret_cast<uintptr_t>(this);
    makecontext(&fiber.context, reinterpret_cast<void (*)()>(&Fibers::enter), 2,
                unsigned(self >> 32), unsigned(self));
  }

  static void enter(unsigned high, unsigned low) {
    auto* const fibers = reinterpret_cast<Fibers*>(uintptr_t(high) << 32 | uintptr_t(low));
    const int thread = fibers->running_;
    (*fibers->function_)(thread);
    fibers->fibers_[size_t(thread)]->is_done = true;
  }

  bool resume(int i) {
    Fiber& fiber = *fibers_[size_t(i)];
    if (fiber.is_done) return true;
    running_ = i;
    swapcontext(&scheduler_, &fiber.context);
    return fiber.is_done;
  }

  std::vector<std::unique_ptr<Fiber>> fibers_;
  ucontext_t scheduler_;
  const Function* function_ = nullptr;
  int running_ = 0;
};

// What portable/block.hpp asks for, as one thread sees it.
template <int kBlockThreads>
class FiberBlock {
 public:
  static constexpr int kThreads = kBlockThreads;

  template <class T, int n>
  using Registers = portable::OwnRegisters<T, n>;

  FiberBlock(int thread, int index, int n_blocks, float* shared, Fibers& fibers,
             portable::Shuffled& order)
      : thread_(thread), index_(index), n_blocks_(n_blocks), shared_(shared), fibers_(fibers),
        order_(order) {}

  int index() const { return index_; }
  int n_blocks() const { return n_blocks_; }
  float* shared() const { return shared_; }
  void barrier() const { fibers_.barrier(); }

  template <class Function>
  void threads(Function function) { function(thread_); }

  // A thread takes all lanes of its groups.
  template <class Function>
  void groups(int64_t n, int log_fanout, Function function) {
    portable::ArrayLanes<portable::kMostChildren, portable::Shuffled> lanes(1 << log_fanout, order_);
    const int64_t step = int64_t(n_blocks_) * kThreads;
    for (int64_t i = int64_t(index_) * kThreads + thread_; i < n; i += step) function(lanes, i);
  }

 private:
  int thread_, index_, n_blocks_;
  float* shared_;
  Fibers& fibers_;
  portable::Shuffled& order_;
};

}  // namespace device
}  // namespace accel
