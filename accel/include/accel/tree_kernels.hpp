// What one CPU variant offers the sum tree: plain functions on plain data, see kernels.hpp.
#pragma once

#include <stdint.h>

namespace accel {

constexpr int kMaxTreeLevels = 41;  // 2^40 rows at fanout 2

// Level 0 is the root, level n_levels the rows' priorities. The children of node i of a level are the
// nodes i K to i K + K - 1 of the next one, side by side on cache lines; those beyond a level are zero.
// A guide stands beside each node of the upper levels: the sum of its elder siblings, infinity where it
// and its younger ones are zero. So a descent need only compare there. The three lowest levels are
// large: a guide would be one more line of memory for a change to fetch and write.
struct TreeView {
  int log_fanout;
  int n_levels;                        // below the root, at least 1
  int64_t n_nodes[kMaxTreeLevels + 1];
  double* sums[kMaxTreeLevels + 1];
  double* guides[kMaxTreeLevels + 1];  // of the levels below n_guided()

  int n_guided() const { return n_levels > 2 ? n_levels - 2 : 0; }
};

// Target i: values[i], or (first + i + 1 - values[i]) step for a stratified draw.
struct TreeTargets {
  const double* values;
  int64_t n;
  bool stratified;
  int64_t first;
  double step;
};

struct TreeKernels {
  // Find each target's row; the total must be positive.
  void (*descend)(const TreeView&, const TreeTargets&, int64_t* rows, double* priorities);
  // Replace the priorities of n rows, the last one of equal rows counts.
  void (*write)(const TreeView&, const int64_t* rows, const double* priorities, int64_t n);
  // Compute the ancestors of the rows first to last.
  void (*refresh_range)(const TreeView&, int64_t first, int64_t last);
  // The largest of n values, infinity where one is negative or NaN.
  double (*largest)(const double* values, int64_t n);
  // weights = (priorities / least)^-beta
  void (*weigh)(const double* priorities, int64_t n, double least, double beta, float* weights);
  // priorities = (|errors| + epsilon)^alpha
  void (*prioritise)(const float* errors, int64_t n, double alpha, double epsilon,
                     double* priorities);
};

struct Kernels;

// Those of the same variant, for a fanout of 2^log_fanout (1 to 6).
const TreeKernels& tree_kernels(const Kernels& kernels, int log_fanout);

}  // namespace accel
