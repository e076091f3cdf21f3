// The sum tree's memory, locks and threads; the loops that take time are in sum_tree_kernels.cpp.
#include "accel/sum_tree.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>
#include <new>
#include <numeric>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <unordered_map>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "accel/numbers.hpp"

namespace accel {
namespace {

using ReadLock = std::shared_lock<FairLock>;
using WriteLock = std::unique_lock<FairLock>;

constexpr int64_t kLineDoubles = 8;
constexpr int64_t kThreadRows = 8192;  // fewer are drawn before a thread has started
constexpr int64_t kAhead = 16;         // rows that are fetched before their turn
constexpr size_t kHugePage = size_t{2} << 20;

int logarithm(int fanout) {
  int log = 0;
  while ((1 << log) < fanout) ++log;
  return log;
}

int64_t round_up_long(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// Zeros. Big trees lie on huge pages where the system has them: a descent goes to many pages.
double* allocate(int64_t n) {
  const size_t bytes = size_t(n) * sizeof(double);
  const size_t alignment = bytes >= kHugePage ? kHugePage : 64;
  const size_t size = (bytes + alignment - 1) / alignment * alignment;
  void* p = std::aligned_alloc(alignment, size);
  if (p == nullptr) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
  if (alignment == kHugePage) madvise(p, size, MADV_HUGEPAGE);
#endif
  std::memset(p, 0, size);
  return static_cast<double*>(p);
}

}  // namespace

void SumTree::Free::operator()(double* p) const { std::free(p); }

SumTree::SumTree(int64_t capacity, int fanout, int n_threads, const Kernels& kernels)
    : capacity_(capacity),
      n_threads_(n_threads),
      kernels_(kernels),
      tree_kernels_(tree_kernels(kernels, logarithm(fanout))),
      most_(std::numeric_limits<double>::max() / double(capacity)) {
  view_.log_fanout = logarithm(fanout);
  lay_out(fanout);
  rebuild();
}

// Levels hold only what the capacity needs, in whole groups of siblings.
void SumTree::lay_out(int64_t fanout) {
  std::vector<int64_t> widths = {capacity_};
  do widths.insert(widths.begin(), (widths.front() + fanout - 1) / fanout);
  while (widths.front() > 1);
  view_.n_levels = int(widths.size()) - 1;
  std::vector<int64_t> n_values;
  for (int64_t width : widths)
    n_values.push_back(round_up_long(width, std::max<int64_t>(fanout, kLineDoubles)));
  const int64_t n_guided = view_.n_guided();
  int64_t n_total = std::accumulate(n_values.begin(), n_values.end(), int64_t{0});
  n_total += std::accumulate(n_values.begin(), n_values.begin() + n_guided, int64_t{0});
  memory_.reset(allocate(n_total));
  double* next = memory_.get();
  for (size_t level = 0; level < widths.size(); ++level, next += n_values[level - 1]) {
    view_.n_nodes[level] = widths[level];
    view_.sums[level] = next;
    if (int64_t(level) < n_guided) view_.guides[level] = next += n_values[level];
  }
}

double SumTree::total() const {
  ReadLock lock(lock_);
  return view_.sums[0][0];
}

double SumTree::largest() const {
  ReadLock lock(lock_);
  return largest_ > 0 ? largest_ : 1.0;
}

void SumTree::require_positive_total() const {
  if (!(view_.sums[0][0] > 0))
    throw std::invalid_argument("the tree must hold a positive priority to sample, got none");
}

void SumTree::sample(const double* targets, int64_t n, int64_t* rows, double* priorities) const {
  ReadLock lock(lock_);
  require_positive_total();
  draw({targets, n, false, 0, 0.0}, rows, priorities);
}

void SumTree::sample_stratified(const double* uniforms, int64_t n, double beta, int64_t* rows,
                                float* weights) const {
  std::unique_ptr<double[]> priorities(new double[size_t(n)]);
  {
    ReadLock lock(lock_);
    require_positive_total();
    draw({uniforms, n, true, 0, view_.sums[0][0] / double(n)}, rows, priorities.get());
  }
  if (n == 0) return;
  const double least = *std::min_element(priorities.get(), priorities.get() + n);
  tree_kernels_.weigh(priorities.get(), n, least, beta, weights);
}

void SumTree::draw_part(const TreeTargets& targets, int64_t begin, int64_t end, int64_t* rows,
                        double* priorities) const {
  TreeTargets part = targets;
  part.values += begin;
  part.first += begin;
  part.n = end - begin;
  tree_kernels_.descend(view_, part, rows + begin, priorities + begin);
}

void SumTree::draw(const TreeTargets& targets, int64_t* rows, double* priorities) const {
  const int64_t n = targets.n;
  const int64_t n_parts = std::clamp<int64_t>(n / kThreadRows, 1, n_threads_);
  std::vector<std::thread> threads;
  int64_t end = n;
  for (int64_t part = n_parts - 1; part > 0; --part) {
    const int64_t begin = n * part / n_parts;
    try {
      threads.emplace_back([=, &targets] { draw_part(targets, begin, end, rows, priorities); });
    } catch (const std::system_error&) {
      break;  // no more threads: the rest is done here
    }
    end = begin;
  }
  draw_part(targets, 0, end, rows, priorities);
  for (std::thread& thread : threads) thread.join();
}

void SumTree::retrieve(const int64_t* rows, int64_t n, double* priorities) const {
  ReadLock lock(lock_);
  const double* from = leaves();
  for (int64_t i = 0; i < n; ++i) priorities[i] = from[rows[i]];
}

void SumTree::priorities(double* out) const {
  ReadLock lock(lock_);
  std::memcpy(out, leaves(), size_t(capacity_) * sizeof(double));
}

// Of repeated rows only the last result counts, so only that one can be wrong.
void SumTree::check_results(const int64_t* rows, const double* changed, int64_t n) const {
  const auto right = [this](double p) { return p >= 0 && p <= most_; };
  std::unordered_map<int64_t, int64_t> last;
  for (int64_t i = 0; i < n; ++i) last[rows[i]] = i;
  for (int64_t i = 0; i < n; ++i)
    if (!right(changed[i]) && last[rows[i]] == i)
      throw std::invalid_argument("priority + deltas[" + std::to_string(i) +
                                  "] must be at least 0 and at most " + to_text(most_) + ", got " +
                                  to_text(changed[i]));
}

void SumTree::update(const int64_t* rows, const double* deltas, int64_t n) {
  WriteLock lock(lock_);
  changed_.resize(size_t(n));
  // All are read before any is written: of repeated rows the last delta counts, once.
  const double* from = leaves();
  for (int64_t i = 0; i < n; ++i) {
    if (i + kAhead < n) __builtin_prefetch(from + rows[i + kAhead], 1);
    changed_[size_t(i)] = from[rows[i]] + deltas[i];
  }
  const double high = largest_of(changed_.data(), n);
  if (high > most_) check_results(rows, changed_.data(), n);
  write(rows, changed_.data(), n, high);
}

void SumTree::set(const int64_t* rows, const double* priorities, int64_t n) {
  const double high = largest_of(priorities, n);
  WriteLock lock(lock_);
  write(rows, priorities, n, high);
}

void SumTree::set_td_errors(const int64_t* rows, const float* errors, int64_t n, double alpha,
                            double epsilon) {
  std::unique_ptr<double[]> priorities(new double[size_t(n)]);
  tree_kernels_.prioritise(errors, n, alpha, epsilon, priorities.get());
  const double high = largest_of(priorities.get(), n);
  if (high > most_)
    throw std::invalid_argument("priorities from td_errors must be at most " + to_text(most_) +
                                ", got " + to_text(high));
  WriteLock lock(lock_);
  write(rows, priorities.get(), n, high);
}

void SumTree::write(const int64_t* rows, const double* priorities, int64_t n, double high) {
  tree_kernels_.write(view_, rows, priorities, n);
  if (high <= largest_) return;
  // What a later one of the batch has overwritten does not count.
  for (int64_t i = 0; i < n; ++i) largest_ = std::max(largest_, leaves()[rows[i]]);
}

void SumTree::fill(int64_t first, int64_t n, double priority) {
  if (n == 0) return;
  std::fill_n(leaves() + first, n, priority);
  tree_kernels_.refresh_range(view_, first, first + n - 1);
}

void SumTree::insert(int64_t start, int64_t n, const double* priority) {
  WriteLock lock(lock_);
  const double value = priority != nullptr ? *priority : largest_ > 0 ? largest_ : 1.0;
  const int64_t n_before_end = std::min(n, capacity_ - start);
  fill(start, n_before_end, value);
  fill(0, n - n_before_end, value);
  if (n > 0) largest_ = std::max(largest_, value);
}

void SumTree::rebuild() {
  WriteLock lock(lock_);
  tree_kernels_.refresh_range(view_, 0, capacity_ - 1);
}

void SumTree::load(const double* priorities, double largest) {
  WriteLock lock(lock_);
  std::memcpy(leaves(), priorities, size_t(capacity_) * sizeof(double));
  tree_kernels_.refresh_range(view_, 0, capacity_ - 1);
  largest_ = largest;
}

}  // namespace accel
