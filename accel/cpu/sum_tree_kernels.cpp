// Descents and refreshes of the sum tree for one CPU variant, as in kernels.cpp. All sums are added
// child after child, so every variant gives equal bits.
#include "accel/tree_kernels.hpp"
#include "doubles.hpp"

namespace accel {
namespace ACCEL_VARIANT {

// Descents that go down side by side, so that their cache misses overlap.
constexpr int kDescents = 64;
constexpr double kLeastTarget = 5e-324;  // stands for 0: the first positive row
// Fetches run this many rows ahead.
constexpr int64_t kAhead = 16;
constexpr int64_t kRowsTogether = 32;

template <int fanout>
ACCEL_INLINE void prefetch_siblings(const double* siblings) {
#pragma GCC unroll 8
  for (int i = 0; i < (fanout + 7) / 8; ++i) __builtin_prefetch(siblings + 8 * i);
}

// One bit a lane in which a < b.
ACCEL_INLINE uint64_t less_bits(DoubleVec a, DoubleVec b) {
#if defined(__AVX512F__)
  return _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_LT_OQ);
#elif defined(__AVX__)
  return unsigned(_mm256_movemask_pd(_mm256_cmp_pd((__m256d)a, (__m256d)b, _CMP_LT_OQ)));
#elif defined(__SSE2__)
  return unsigned(_mm_movemask_pd(_mm_cmplt_pd((__m128d)a, (__m128d)b)));
#else
  const LongVec less = a < b;
  uint64_t bits = 0;
  for (int i = 0; i < kDoubles; ++i) bits |= uint64_t(less[i] & 1) << i;
  return bits;
#endif
}

// The last child whose elder siblings' sum is less than x. Guides never fall from one to the next, so
// the bits are ones, then zeros. (Counting trailing zeros is fast on every x86-64, leading ones not.)
template <int fanout>
ACCEL_INLINE int64_t choose_child(const double* guides, double x) {
  uint64_t bits = 0;
  if constexpr (fanout < kDoubles) {
    for (int j = 1; j < fanout; ++j) bits |= uint64_t(guides[j] < x) << j;
  } else {
#pragma GCC unroll 32
    for (int j = 0; j < fanout; j += kDoubles)
      bits |= less_bits(load(guides + j), splat(x)) << j;
  }
  return __builtin_ctzll(~(bits >> 1));
}

// `begins`: where the children of each descent's node begin in their level.
template <int fanout>
ACCEL_INLINE void descend_level(const double* guides, const double* next, int64_t* begins, double* x,
                                int n) {
  for (int i = 0; i < n; ++i) {
    const double* siblings = guides + begins[i];
    const int64_t child = choose_child<fanout>(siblings, x[i]);
    x[i] -= siblings[child];
    begins[i] = (begins[i] + child) * fanout;
    prefetch_siblings<fanout>(next + begins[i]);
  }
}

// A level without guides, a descent a lane: from the sums of the children, or from the rows'
// priorities. `chosen` receives that of each descent's child.
template <int fanout>
ACCEL_INLINE void choose_unguided(const double* sums, const int64_t* begins, double* x,
                                  int64_t* rows, double* chosen_sums) {
  const double* siblings[kDoubles];
  for (int i = 0; i < kDoubles; ++i) siblings[i] = sums + begins[i];
  const DoubleVec target = load(x);
  DoubleVec sum{}, chosen{}, before{};
  LongVec row{};
#pragma GCC unroll 8
  for (int j = 0; j < fanout; ++j) {
    DoubleVec p;
    for (int i = 0; i < kDoubles; ++i) p[i] = siblings[i][j];
    const LongVec below = (p > 0.0) & (sum < target);
    row = below ? j - LongVec{} : row;
    chosen = below ? p : chosen;
    before = below ? sum : before;
    sum += p;
  }
  store(x, target - before);
  store(rows, load(begins) + row);
  store(chosen_sums, chosen);
}

// An inner level without guides: the children in the next one are fetched.
template <int fanout>
ACCEL_INLINE void descend_unguided(const double* sums, const double* next, int64_t* begins,
                                   double* x, int n) {
  double chosen[kDoubles];
  for (int i = 0; i < n; i += kDoubles) {
    choose_unguided<fanout>(sums, begins + i, x + i, begins + i, chosen);
    for (int j = i; j < i + kDoubles; ++j) {
      begins[j] *= fanout;
      prefetch_siblings<fanout>(next + begins[j]);
    }
  }
}

ACCEL_INLINE void read_targets(const TreeTargets& targets, int64_t begin, int n, double* x) {
  for (int i = 0; i < n; ++i) {
    double target = targets.values[begin + i];
    if (targets.stratified)
      target = (double(targets.first + begin + i + 1) - target) * targets.step;
    x[i] = target > kLeastTarget ? target : kLeastTarget;
  }
}

template <int fanout>
void descend(const TreeView& tree, const TreeTargets& targets, int64_t* rows, double* priorities) {
  // The last vector of rows may go beyond those asked for.
  alignas(64) double x[kDescents], found[kDescents];
  alignas(64) int64_t begins[kDescents], found_rows[kDescents];
  const int last = tree.n_levels;
  for (int64_t begin = 0; begin < targets.n; begin += kDescents) {
    const int64_t left = targets.n - begin;
    const int n = left < kDescents ? int(left) : kDescents;
    const int n_lanes = (n + kDoubles - 1) / kDoubles * kDoubles;
    read_targets(targets, begin, n, x);
    for (int i = n; i < n_lanes; ++i) x[i] = x[0];
    for (int i = 0; i < n_lanes; ++i) begins[i] = 0;
    for (int level = 1; level < tree.n_guided(); ++level)
      descend_level<fanout>(
          tree.guides[level],
          level + 1 < tree.n_guided() ? tree.guides[level + 1] : tree.sums[level + 1], begins, x,
          n_lanes);
    for (int level = tree.n_guided() > 1 ? tree.n_guided() : 1; level < last; ++level)
      descend_unguided<fanout>(tree.sums[level], tree.sums[level + 1], begins, x, n_lanes);
    for (int i = 0; i < n_lanes; i += kDoubles)
      choose_unguided<fanout>(tree.sums[last], begins + i, x + i, found_rows + i, found + i);
    __builtin_memcpy(rows + begin, found_rows, size_t(n) * sizeof(int64_t));
    __builtin_memcpy(priorities + begin, found, size_t(n) * sizeof(double));
  }
}

// Sum the children of `node` of `level - 1`, and write their guides.
template <int fanout>
ACCEL_INLINE void refresh_node(const TreeView& tree, int level, int64_t node) {
  const double* children = tree.sums[level] + node * fanout;
  double sum = 0.0;
  if (level >= tree.n_guided()) {
#pragma GCC unroll 8
    for (int j = 0; j < fanout; ++j) sum += children[j];
  } else {
    double* guides = tree.guides[level] + node * fanout;
#pragma GCC unroll 8
    for (int j = 0; j < fanout; ++j) {
      guides[j] = sum;
      sum += children[j];
    }
    // A zero has the guide of its next sibling, so that the choice goes on to that one.
    for (int j = fanout - 1; j > 0 && children[j] == 0.0; --j) guides[j] = __builtin_inf();
  }
  tree.sums[level - 1][node] = sum;
}

// All of the levels above `level`.
template <int fanout>
void refresh_above(const TreeView& tree, int level) {
  for (; level > 0; --level)
    for (int64_t node = 0; node < tree.n_nodes[level - 1]; ++node)
      refresh_node<fanout>(tree, level, node);
}

// Refresh nodes of `level - 1`; keep their parents, once where equal ones are neighbours, and fetch
// what these will read and write.
template <int fanout>
ACCEL_INLINE int64_t refresh_nodes(const TreeView& tree, int level, int64_t* nodes, int64_t n) {
  int64_t n_kept = 0, before = -1;
  const int above = level > 1 ? level - 1 : 1;
  const bool has_guides = above < tree.n_guided();
  for (int64_t i = 0; i < n; ++i) {
    const int64_t node = nodes[i], parent = int64_t(uint64_t(node) / fanout);
    refresh_node<fanout>(tree, level, node);
    if (has_guides) prefetch_siblings<fanout>(tree.guides[above] + parent * fanout);
    if (fanout > 8) prefetch_siblings<fanout>(tree.sums[above] + parent * fanout);
    __builtin_prefetch(tree.sums[above - 1] + parent);
    nodes[n_kept] = parent;
    n_kept += parent != before;
    before = parent;
  }
  return n_kept;
}

// Write rows' priorities, and keep their parents. Of all rows, n_ahead are still to come.
template <int fanout>
ACCEL_INLINE void write_rows(const TreeView& tree, const int64_t* rows, const double* priorities,
                             int64_t n, int64_t n_ahead, int64_t* nodes) {
  double* leaves = tree.sums[tree.n_levels];
  const double* parents = tree.sums[tree.n_levels - 1];
  for (int64_t i = 0; i < n; ++i) {
    if (i + kAhead < n_ahead) {
      const int64_t next = int64_t(uint64_t(rows[i + kAhead]) / fanout);
      prefetch_siblings<fanout>(leaves + next * fanout);
      __builtin_prefetch(parents + next);
    }
    leaves[rows[i]] = priorities[i];
    nodes[i] = int64_t(uint64_t(rows[i]) / fanout);
  }
}

// A few rows at a time go up the tree, so that what is fetched for the next level stays close. Nodes
// are refreshed again where rows share them: that is right, and quicker than finding out, until a
// level has fewer nodes than there are rows; then all of it is.
template <int fanout>
void write(const TreeView& tree, const int64_t* rows, const double* priorities, int64_t n) {
  int64_t nodes[kRowsTogether];
  int top = tree.n_levels;
  while (top > 0 && n <= tree.n_nodes[top - 1]) --top;
  for (int64_t begin = 0; begin < n; begin += kRowsTogether) {
    const int64_t left = n - begin;
    int64_t m = left < kRowsTogether ? left : kRowsTogether;
    write_rows<fanout>(tree, rows + begin, priorities + begin, m, left, nodes);
    for (int level = tree.n_levels; level > top; --level)
      m = refresh_nodes<fanout>(tree, level, nodes, m);
  }
  refresh_above<fanout>(tree, top);
}

template <int fanout>
void refresh_range(const TreeView& tree, int64_t first, int64_t last) {
  for (int level = tree.n_levels; level > 0; --level) {
    first /= fanout;
    last /= fanout;
    for (int64_t node = first; node <= last; ++node) refresh_node<fanout>(tree, level, node);
  }
}

// to (n,) = function of from (n,), a vector at a time.
template <class From, class To, class Function>
ACCEL_INLINE void map(const From* from, To* to, int64_t n, Function function) {
  int64_t i = 0;
  for (; i + kDoubles <= n; i += kDoubles)
    store_doubles(to + i, function(load_doubles(from + i)));
  From rest[kDoubles] = {};
  To results[kDoubles];
  for (int64_t j = i; j < n; ++j) rest[j - i] = from[j];
  if (i < n) store_doubles(results, function(load_doubles(rest)));
  for (int64_t j = i; j < n; ++j) to[j] = results[j - i];
}

// The largest; infinity where one is negative or NaN.
static double largest(const double* values, int64_t n) {
  DoubleVec high{};
  LongVec wrong{};
  int64_t i = 0;
  for (; i + kDoubles <= n; i += kDoubles) {
    const DoubleVec x = load(values + i);
    wrong |= ~(x >= 0.0);
    high = x > high ? x : high;
  }
  double result = 0.0;
  bool right = true;
  for (int j = 0; j < kDoubles; ++j) {
    right &= wrong[j] == 0;
    result = high[j] > result ? high[j] : result;
  }
  for (; i < n; ++i) {
    right &= values[i] >= 0.0;
    result = values[i] > result ? values[i] : result;
  }
  return right ? result : __builtin_inf();
}

static void weigh(const double* priorities, int64_t n, double least, double beta, float* weights) {
  const DoubleVec lowest = log2(splat(least));
  map(priorities, weights, n, [=](DoubleVec p) __attribute__((always_inline)) {
    return exp2((lowest - log2(p)) * beta);
  });
}

static void prioritise(const float* errors, int64_t n, double alpha, double epsilon,
                       double* priorities) {
  map(errors, priorities, n, [=](DoubleVec error) __attribute__((always_inline)) {
    return power((error < 0.0 ? -error : error) + epsilon, alpha);
  });
}

template <int fanout>
constexpr TreeKernels kTree = {descend<fanout>, write<fanout>, refresh_range<fanout>, largest,
                               weigh,           prioritise};

// By the logarithm of the fanout.
extern const TreeKernels trees[];
const TreeKernels trees[] = {{},        kTree<2>,  kTree<4>, kTree<8>,
                             kTree<16>, kTree<32>, kTree<64>};

}  // namespace ACCEL_VARIANT
}  // namespace accel
