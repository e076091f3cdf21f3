// Threads that wait between pieces of work, so that a step of a fraction of a millisecond can be
// shared.
#pragma once

#include <memory>

namespace accel {

class ThreadTeam {
 public:
  // `n_threads` counts the caller.
  explicit ThreadTeam(int n_threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int n_threads() const { return n_threads_; }

  // Calls function(task) once for each task from 0 on, on whichever thread is free; returns when all
  // are done. Functions must not throw.
  template <class Function>
  void run(int n_tasks, const Function& function) {
    if (n_threads_ == 1 || n_tasks == 1) {
      for (int task = 0; task < n_tasks; ++task) function(task);
      return;
    }
    start(n_tasks, &function, [](const void* f, int task) {
      (*static_cast<const Function*>(f))(task);
    });
  }

 private:
  struct Workers;
  using Call = void (*)(const void*, int);
  void start(int n_tasks, const void* function, Call call);
  void leave_behind();

  int n_threads_;
  int process_;  // that the workers belong to: a forked one has none of them
  std::unique_ptr<Workers> workers_;
};

}  // namespace accel
