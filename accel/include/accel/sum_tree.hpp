// Priorities of a replay buffer's rows in an n-ary sum tree, see accel/interfaces.py.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "accel/fair_lock.hpp"
#include "accel/kernels.hpp"
#include "accel/tree_kernels.hpp"

namespace accel {

constexpr int64_t kMaxTreeCapacity = int64_t{1} << 40;

// Arguments are as the bindings check them; what depends on the tree's contents is checked here and
// throws std::invalid_argument before anything changes. Safe to call from several threads.
class SumTree {
 public:
  SumTree(int64_t capacity, int fanout, int n_threads, const Kernels& kernels);

  int64_t capacity() const { return capacity_; }
  int fanout() const { return 1 << view_.log_fanout; }
  int depth() const { return capacity_ == 1 ? 0 : view_.n_levels; }
  const char* device() const { return "cpu"; }
  int n_threads() const { return n_threads_; }
  const Kernels& kernels() const { return kernels_; }
  double most() const { return most_; }  // a priority may be

  double total() const;
  double largest() const;
  void sample(const double* targets, int64_t n, int64_t* rows, double* priorities) const;
  void sample_stratified(const double* uniforms, int64_t n, double beta, int64_t* rows,
                         float* weights) const;
  void retrieve(const int64_t* rows, int64_t n, double* priorities) const;
  void priorities(double* out) const;  // (capacity,)

  void update(const int64_t* rows, const double* deltas, int64_t n);
  void set(const int64_t* rows, const double* priorities, int64_t n);
  void set_td_errors(const int64_t* rows, const float* errors, int64_t n, double alpha,
                     double epsilon);
  void insert(int64_t start, int64_t n, const double* priority);  // null: the largest so far
  void rebuild();
  void load(const double* priorities, double largest);

 private:
  void lay_out(int64_t fanout);
  void draw(const TreeTargets& targets, int64_t* rows, double* priorities) const;
  void draw_part(const TreeTargets& targets, int64_t begin, int64_t end, int64_t* rows,
                 double* priorities) const;
  void require_positive_total() const;
  void check_results(const int64_t* rows, const double* changed, int64_t n) const;
  void write(const int64_t* rows, const double* priorities, int64_t n, double high);
  void fill(int64_t first, int64_t n, double priority);
  // Infinity where one is negative or NaN.
  double largest_of(const double* values, int64_t n) const {
    return tree_kernels_.largest(values, n);
  }
  double* leaves() const { return view_.sums[view_.n_levels]; }

  struct Free {
    void operator()(double* p) const;
  };

  int64_t capacity_;
  int n_threads_;
  const Kernels& kernels_;
  const TreeKernels& tree_kernels_;
  double most_;
  std::unique_ptr<double[], Free> memory_;
  TreeView view_{};
  double largest_ = 0.0;  // 0 before the first positive one
  mutable FairLock lock_;
  std::vector<double> changed_;  // by one update, for the writer only
};

}  // namespace accel
