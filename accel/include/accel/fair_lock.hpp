// Many readers or one writer, in turns: those who wait longest come next, so neither side starves.
// Phase-fair ticket lock (Brandenburg & Anderson 2010, "Spin-based reader-writer synchronization").
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace accel {

// As std::shared_mutex, for std::shared_lock and std::unique_lock. Free locks cost two atomic adds.
class FairLock {
 public:
  void lock_shared() {
    const uint32_t writer = arrived_.fetch_add(kReader, std::memory_order_acq_rel) & kWriterBits;
    // Only for the writer that is there now: the next one lets these readers pass.
    if (writer != 0)
      wait([&] { return (arrived_.load(std::memory_order_acquire) & kWriterBits) != writer; });
  }
  void unlock_shared() { left_.fetch_add(kReader, std::memory_order_release); }

  void lock() {
    const uint32_t ticket = tickets_.fetch_add(1, std::memory_order_relaxed);
    wait([&] { return served_.load(std::memory_order_acquire) == ticket; });
    const uint32_t writer = kPresent | (ticket & kPhase);
    const uint32_t readers = arrived_.fetch_add(writer, std::memory_order_acq_rel);
    wait([&] { return left_.load(std::memory_order_acquire) == readers; });
  }
  void unlock() {
    arrived_.fetch_and(~kWriterBits, std::memory_order_release);
    served_.fetch_add(1, std::memory_order_release);
  }

 private:
  static constexpr uint32_t kReader = 4, kWriterBits = 3, kPresent = 2, kPhase = 1;

  // Holders take microseconds, but may have lost their core to somebody.
  template <class Condition>
  static void wait(Condition holds) {
    for (int turn = 0; !holds(); ++turn) {
      if (turn < 100) continue;
      if (turn < 1000)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  // Readers that came and that left, counted in steps of kReader; the writer's bits are `arrived_`'s.
  std::atomic<uint32_t> arrived_{0}, left_{0};
  std::atomic<uint32_t> tickets_{0}, served_{0};  // of writers
};

}  // namespace accel
