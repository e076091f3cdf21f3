#include "accel/thread_team.hpp"

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

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

struct ThreadTeam::Workers {
  ~Workers();
  void add(int n_threads);
  void start(int n_tasks, const void* function, Call call);
  void work();
  void take_tasks();
  bool wait(uint64_t seen);

  std::vector<std::thread> threads;
  std::atomic<uint64_t> round{0};  // of work handed out
  std::atomic<bool> is_over{false};
  std::atomic<int> next{0}, n_busy{0};
  int n_tasks = 0;
  const void* function = nullptr;
  Call call = nullptr;
  std::mutex mutex;
  std::condition_variable wakes;
};

ThreadTeam::Workers::~Workers() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    is_over = true;
  }
  wakes.notify_all();
  for (std::thread& thread : threads) thread.join();
}

void ThreadTeam::Workers::add(int n_threads) {
  for (int i = 0; i < n_threads; ++i) threads.emplace_back([this] { work(); });
}

void ThreadTeam::Workers::start(int tasks, const void* what, Call how) {
  n_tasks = tasks, function = what, call = how;
  next.store(0, std::memory_order_relaxed);
  n_busy.store(int(threads.size()), std::memory_order_relaxed);
  {
    std::lock_guard<std::mutex> lock(mutex);
    round.fetch_add(1, std::memory_order_release);
  }
  wakes.notify_all();
  take_tasks();
  // Every worker reports, so that none still looks at this round when the next one begins.
  for (int spins = 0; n_busy.load(std::memory_order_acquire) > 0; ++spins)
    spins < kSpins ? pause() : std::this_thread::yield();
}

void ThreadTeam::Workers::take_tasks() {
  for (int task; (task = next.fetch_add(1, std::memory_order_relaxed)) < n_tasks;)
    call(function, task);
}

void ThreadTeam::Workers::work() {
  for (uint64_t seen = 0; wait(seen); ++seen) {
    take_tasks();
    n_busy.fetch_sub(1, std::memory_order_release);
  }
}

// Until there is a round after the one seen; false: it is over.
bool ThreadTeam::Workers::wait(uint64_t seen) {
  for (int spins = 0; spins < kSpins; ++spins) {
    if (round.load(std::memory_order_acquire) != seen) return true;
    if (is_over.load(std::memory_order_relaxed)) return false;
    pause();
  }
  std::unique_lock<std::mutex> lock(mutex);
  wakes.wait(lock, [&] { return is_over || round.load(std::memory_order_acquire) != seen; });
  return !is_over;
}

ThreadTeam::ThreadTeam(int n_threads)
    : n_threads_(n_threads), process_(getpid()), workers_(std::make_unique<Workers>()) {
  workers_->add(n_threads_ - 1);
}

ThreadTeam::~ThreadTeam() { leave_behind(); }

// What waits in another process can neither be woken nor joined from here: it stays as it is.
void ThreadTeam::leave_behind() {
  if (process_ != getpid()) (void)workers_.release();
}

void ThreadTeam::start(int n_tasks, const void* function, Call call) {
  if (process_ != getpid()) {
    leave_behind();
    workers_ = std::make_unique<Workers>();
    process_ = getpid();
    workers_->add(n_threads_ - 1);
  }
  workers_->start(n_tasks, function, call);
}

}  // namespace accel
