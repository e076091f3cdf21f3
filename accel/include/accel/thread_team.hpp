// Threads that wait between pieces of work, so that a step of a fraction of a millisecond can be shared.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace accel {

class ThreadTeam {
 public:
  // `n_threads` counts the caller.
  explicit ThreadTeam(int n_threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int n_threads() const { return int(threads_.size()) + 1; }

  // Calls function(task) once for each task from 0 on, on whichever thread is free; returns when all
  // are done. Functions must not throw.
  template <class Function>
  void run(int n_tasks, const Function& function) {
    if (threads_.empty() || n_tasks == 1) {
      for (int task = 0; task < n_tasks; ++task) function(task);
      return;
    }
    start(n_tasks, &function, [](const void* f, int task) {
      (*static_cast<const Function*>(f))(task);
    });
  }

 private:
  using Call = void (*)(const void*, int);
  void start(int n_tasks, const void* function, Call call);
  void work();
  void take_tasks();
  bool wait(uint64_t seen);

  std::vector<std::thread> threads_;
  std::atomic<uint64_t> round_{0};  // of work handed out
  std::atomic<bool> is_over_{false};
  std::atomic<int> next_{0}, n_busy_{0};
  int n_tasks_ = 0;
  const void* function_ = nullptr;
  Call call_ = nullptr;
  std::mutex mutex_;
  std::condition_variable wakes_;
};

}  // namespace accel
