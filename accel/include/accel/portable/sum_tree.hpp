// Kernel bodies of the n-ary sum tree (Zhang et al., HiPC 2021).
//
// All levels lie in one array, the root first, the leaves last; node i of a level has the children
// fanout * i .. fanout * i + fanout - 1 of the next. Each level is padded with zeros to a multiple of
// the fanout. Inner nodes are always computed from their children, never by adding changes: sums do
// not drift, and the tree is a function of its leaves.
#pragma once

#include "accel/portable/atomic.hpp"
#include "accel/portable/block.hpp"

namespace accel {
namespace portable {

constexpr int kMostLevels = 33;

struct TreeShape {
  int64_t capacity;
  int log_fanout, depth;           // levels below the root
  int64_t first[kMostLevels + 1];  // node of each level; behind the last one the number of nodes

  // Rows below one node of a level are 2^shift.
  ACCEL_ANYWHERE int shift(int level) const { return log_fanout * (depth - level); }
  ACCEL_ANYWHERE int64_t n_nodes(int level) const { return ((capacity - 1) >> shift(level)) + 1; }
};

inline TreeShape make_tree_shape(int64_t capacity, int log_fanout) {
  TreeShape shape{};
  shape.capacity = capacity;
  shape.log_fanout = log_fanout;
  while (((capacity - 1) >> (log_fanout * shape.depth)) > 0) ++shape.depth;
  const int64_t fanout = int64_t(1) << log_fanout;
  for (int level = 0; level <= shape.depth; ++level)
    shape.first[level + 1] =
        shape.first[level] + (shape.n_nodes(level) + fanout - 1) / fanout * fanout;
  return shape;
}

struct TreeStatus {
  int32_t first_bad;  // position of the first bad change, kNoneBad if there is none
  int32_t empty;      // 1: the tree holds zeros only
};
constexpr int32_t kNoneBad = 0x7fffffff;

template <class Real>
struct Tree {
  TreeShape shape;
  Real* nodes;
  Bits<Real>* largest;  // priority so far, 0 before the first positive one
  TreeStatus* status;   // of the call

  ACCEL_DEVICE Real* level(int l) const { return nodes + shape.first[l]; }
  ACCEL_DEVICE Real* leaves() const { return level(shape.depth); }
  ACCEL_DEVICE Real total() const { return nodes[0]; }
};

// The child of a node that holds the target x, which becomes what remains of it: the last positive
// child whose exclusive prefix is below x. Log-step prefixes are not monotone in the last bits; taking
// the highest child still stays within the node and never takes a zero.
template <class Lanes, class Real>
ACCEL_DEVICE inline int choose_child(Lanes& lanes, const Real* nodes, Real& x) {
  const auto children = lanes.load(nodes);
  const auto before = lanes.exclusive_sum(children);
  const uint64_t positive = lanes.ballot([&](int i) { return children[i] > 0; });
  const uint64_t reached = positive & lanes.ballot([&](int i) { return before[i] < x; });
  // None is reached by a target of 0, or after rounding: the first positive child.
  const int child = reached != 0 ? highest_bit(reached)
                                 : positive != 0 ? lowest_bit(positive) : 0;
  x -= lanes.broadcast(before, child);
  return child;
}

// The first row whose inclusive prefix sum reaches x.
template <class Lanes, class Real>
ACCEL_DEVICE inline int64_t descend(Lanes& lanes, const Tree<Real>& tree, Real x) {
  int64_t node = 0;
  for (int level = 1; level <= tree.shape.depth; ++level) {
    node <<= tree.shape.log_fanout;
    node += choose_child(lanes, tree.level(level) + node, x);
  }
  return node;
}

template <class Real>
struct SampleTree {
  static constexpr const char* kName = "sample_tree";
  static constexpr int kThreads = 256;
  Tree<Real> tree;
  const Real* targets;  // (n,), stratified: uniforms in [0, 1)
  int64_t* indices;     // (n,)
  Real* priorities;     // (n,)
  Bits<Real>* least_priority;  // of the batch; null where no weights are wanted
  int64_t n;
  bool stratified;

  ACCEL_DEVICE Real target(int64_t j, Real total) const {
    return stratified ? (Real(j + 1) - targets[j]) / Real(n) * total : targets[j];
  }

  template <class Block>
  ACCEL_DEVICE void operator()(Block& block) const {
    const Real total = tree.total();
    if (!(total > 0)) {
      parallel(block, 1, [&](int) { tree.status->empty = 1; });
      return;
    }
    block.groups(n, tree.shape.log_fanout, [&](auto& lanes, int64_t j) {
      const int64_t row = descend(lanes, tree, target(j, total));
      const Real priority = tree.leaves()[row];
      lanes.store(indices + j, row);
      lanes.store(priorities + j, priority);
      if (least_priority != nullptr)
        lanes.once([&] { atomic_min(least_priority, to_bits(priority)); });
    });
  }
};

// Importance weights (P(i) / min P)^-beta (Schaul et al. 2016).
template <class Real>
struct WeighRows {
  static constexpr const char* kName = "weigh_rows";
  static constexpr int kThreads = 256;
  const TreeStatus* status;
  const Real* priorities;            // (n,)
  const Bits<Real>* least_priority;
  float* weights;                    // (n,)
  int64_t n;
  Real beta;

  template <class Block>
  ACCEL_DEVICE void operator()(Block& block) const {
    if (status->empty != 0) return;
    const Real smallest = from_bits<Real>(*least_priority);
    grid_parallel(block, n, [&](int64_t j) {
      weights[j] = float(pow_(priorities[j] / smallest, -beta));
    });
  }
};

// Priorities (|td error| + epsilon)^alpha (Schaul et al. 2016).
template <class Real>
struct PrioritiseRows {
  static constexpr const char* kName = "prioritise_rows";
  static constexpr int kThreads = 256;
  const float* td_errors;  // (n,)
  Real* priorities;        // (n,)
  int64_t n;
  Real alpha, epsilon;

  template <class Block>
  ACCEL_DEVICE void operator()(Block& block) const {
    grid_parallel(block, n, [&](int64_t j) {
      priorities[j] = pow_(Real(abs_(td_errors[j])) + epsilon, alpha);
    });
  }
};

template <class Real>
struct RetrieveRows {
  static constexpr const char* kName = "retrieve_rows";
  static constexpr int kThreads = 256;
  Tree<Real> tree;
  const int64_t* indices;  // (n,)
  Real* priorities;        // (n,)
  int64_t n;

  template <class Block>
  ACCEL_DEVICE void operator()(Block& block) const {
    grid_parallel(block, n, [&](int64_t j) {
      const int64_t row = indices[j];
      if (row < 0 || row >= tree.shape.capacity)
        atomic_min(&tree.status->first_bad, int32_t(j));
      else
        priorities[j] = tree.leaves()[row];
    });
  }
};

// Rows whose ancestors are to be computed again: listed, or from `start` on.
struct ChangedRows {
  const int64_t* indices;  // (n,) or null
  int64_t start, n;

  ACCEL_ANYWHERE int64_t n_nodes(const TreeShape& shape, int level) const {
    if (indices == nullptr)
      return ((start + n - 1) >> shape.shift(level)) - (start >> shape.shift(level)) + 1;
    return least(n, shape.n_nodes(level));
  }
  ACCEL_DEVICE int64_t node(const TreeShape& shape, int level, int64_t j) const {
    if (indices == nullptr) return (start >> shape.shift(level)) + j;
    // With more rows than nodes, all nodes are fewer.
    return n < shape.n_nodes(level) ? indices[j] >> shape.shift(level) : j;
  }
};

template <class Real, class Block>
ACCEL_DEVICE inline void recompute_level(Block& block, const Tree<Real>& tree,
                                         const ChangedRows& rows, int level) {
  const int log_fanout = tree.shape.log_fanout;
  block.groups(rows.n_nodes(tree.shape, level), log_fanout, [&](auto& lanes, int64_t j) {
    const int64_t node = rows.node(tree.shape, level, j);
    const auto children = lanes.load(tree.level(level + 1) + (node << log_fanout));
    lanes.store(tree.level(level) + node, lanes.sum(children));
  });
}

template <class Real>
struct RecomputeLevel {
  static constexpr const char* kName = "recompute_level";
  static constexpr int kThreads = 256;
  Tree<Real> tree;
  ChangedRows rows;
  int level;

  template <class Block>
  ACCEL_DEVICE void operator()(Block& block) const {
    if (tree.status->first_bad == kNoneBad) recompute_level(block, tree, rows, level);
  }
};

// New priorities of listed rows. Where a row is listed several times the last one counts: each entry
// stamps its row with its position, and the latest stamp stays.
template <class Real>
struct Change {
  Tree<Real> tree;
  const int64_t* indices;  // (n,)
  const Real* values;      // (n,)
  int32_t* stamps;         // (capacity,)
  int64_t n;
  Real most;      // a priority may be
  int32_t stamp;  // of position 0, above all stamps of earlier calls
  bool add;       // to the priority there, else instead of it

  ACCEL_DEVICE bool counts(int64_t j) const {
    const int64_t row = indices[j];
    return row >= 0 && row < tree.shape.capacity && stamps[row] == stamp + int32_t(j);
  }
  ACCEL_DEVICE Real result(int64_t j) const {
    return add ? tree.leaves()[indices[j]] + values[j] : values[j];
  }

  template <class Block>
  ACCEL_DEVICE void claim(Block& block) const {
    grid_parallel(block, n, [&](int64_t j) {
      const int64_t row = indices[j];
      if (row < 0 || row >= tree.shape.capacity)
        atomic_min(&tree.status->first_bad, int32_t(j));
      else
        atomic_max(stamps + row, stamp + int32_t(j));
    });
  }
  template <class Block>
  ACCEL_DEVICE void check(Block& block) const {
    grid_parallel(block, n, [&](int64_t j) {
      if (!counts(j)) return;
      const Real priority = result(j);
      if (!(priority >= 0 && priority <= most)) atomic_min(&tree.status->first_bad, int32_t(j));
    });
  }
  template <class Block>
  ACCEL_DEVICE void write(Block& block) const {
    if (tree.status->first_bad != kNoneBad) return;
    grid_parallel(block, n, [&](int64_t j) {
      if (!counts(j)) return;
      const Real priority = result(j);
      tree.leaves()[indices[j]] = priority;
      if (priority > 0) atomic_max(tree.largest, to_bits(priority));
    });
  }
};

template <class Real>
struct ClaimRows {
  static constexpr const char* kName = "claim_rows";
  static constexpr int kThreads = 256;
  Change<Real> change;
  template <class Block>
  ACCEL_DEVICE void operator()(Block& block) const { change.claim(block); }
};

template <class Real>
struct CheckRows {
  static constexpr const char* kName = "check_rows";
  static constexpr int kThreads = 256;
  Change<Real> change;
  template <class Block>
  ACCEL_DEVICE void operator()(Block& block) const { change.check(block); }
};

template <class Real>
struct WriteRows {
  static constexpr const char* kName = "write_rows";
  static constexpr int kThreads = 256;
  Change<Real> change;
  template <class Block>
  ACCEL_DEVICE void operator()(Block& block) const { change.write(block); }
};

// The same and all levels by one block: for small batches one launch is faster than many.
template <class Real>
struct ChangeRows {
  static constexpr const char* kName = "change_rows";
  static constexpr int kThreads = 1024;
  Change<Real> change;

  template <class Block>
  ACCEL_DEVICE void operator()(Block& block) const {
    change.claim(block);
    block.barrier();
    change.check(block);
    block.barrier();
    change.write(block);
    if (change.tree.status->first_bad != kNoneBad) return;
    const ChangedRows rows{change.indices, 0, change.n};
    for (int level = change.tree.shape.depth - 1; level >= 0; --level) {
      block.barrier();
      recompute_level(block, change.tree, rows, level);
    }
  }
};

// One priority for the rows from `start` on; a negative one: the largest so far, 1 before the first.
template <class Real>
struct FillRows {
  static constexpr const char* kName = "fill_rows";
  static constexpr int kThreads = 256;
  Tree<Real> tree;
  int64_t start, n;
  Real priority;

  template <class Block>
  ACCEL_DEVICE void operator()(Block& block) const {
    const Real so_far = from_bits<Real>(*tree.largest);
    const Real value = priority >= 0 ? priority : so_far > 0 ? so_far : Real(1);
    grid_parallel(block, n, [&](int64_t j) { tree.leaves()[start + j] = value; });
    // Other blocks may read `largest` after this: they still get a maximum with the same value.
    if (value > 0)
      parallel(block, 1, [&](int) { atomic_max(tree.largest, to_bits(value)); });
  }
};

}  // namespace portable
}  // namespace accel
