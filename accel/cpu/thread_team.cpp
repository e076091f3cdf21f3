#include "accel/thread_team.hpp"

namespace accel {
namespace {

// About a tenth of a millisecond: between the phases of a step nobody goes to sleep.
constexpr int kSpins = 4000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

ThreadTeam::ThreadTeam(int n_threads) {
  for (int i = 1; i < n_threads; ++i) threads_.emplace_back([this] { work(); });
}

ThreadTeam::~ThreadTeam() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_over_ = true;
  }
  wakes_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadTeam::start(int n_tasks, const void* function, Call call) {
  n_tasks_ = n_tasks, function_ = function, call_ = call;
  next_.store(0, std::memory_order_relaxed);
  n_busy_.store(int(threads_.size()), std::memory_order_relaxed);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    round_.fetch_add(1, std::memory_order_release);
  }
  wakes_.notify_all();
  take_tasks();
  // Every worker reports, so that none still looks at this round when the next one begins.
  for (int spins = 0; n_busy_.load(std::memory_order_acquire) > 0; ++spins)
    spins < kSpins ? pause() : std::this_thread::yield();
}

void ThreadTeam::take_tasks() {
  for (int task; (task = next_.fetch_add(1, std::memory_order_relaxed)) < n_tasks_;)
    call_(function_, task);
}

void ThreadTeam::work() {
  for (uint64_t seen = 0; wait(seen); ++seen) {
    take_tasks();
    n_busy_.fetch_sub(1, std::memory_order_release);
  }
}

// Until there is a round after the one seen; false: it is over.
bool ThreadTeam::wait(uint64_t seen) {
  for (int spins = 0; spins < kSpins; ++spins) {
    if (round_.load(std::memory_order_acquire) != seen) return true;
    if (is_over_.load(std::memory_order_relaxed)) return false;
    pause();
  }
  std::unique_lock<std::mutex> lock(mutex_);
  wakes_.wait(lock, [&] { return is_over_ || round_.load(std::memory_order_acquire) != seen; });
  return !is_over_;
}

}  // namespace accel
