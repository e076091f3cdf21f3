// The sum tree as a pipeline: one kernel a level, each the only owner of its level's nodes, joined by
// pipes (Zhang et al. 2021; Meng et al. 2023). Needs definitions of FANOUT, DEPTH (levels below the
// root), LEVEL_NODES (an initialiser: nodes of levels 1 to DEPTH at most), REAL and PIPE_DEPTH.
//
//     producer --> level 1 --> level 2 --> ... --> level D --> consumer       look-ups go down
//     consumer <-- level 1 <-- level 2 <-- ... <-- level D <-- producer       changes go up
//
// A look-up carries a node and what remains of its target. A change carries a node and its new
// value: a level stores it and sends the sum of the node's siblings to their parent. So parents are
// always sums of their children in one order, the tree is a function of its leaves and never drifts,
// and a change needs no look-up of the old priority first. Latency and throughput are those of
// deltas that go down: one change enters each cycle, D levels deep.
//
// Nodes come from global memory when a batch begins and changed levels go back when it ends: a
// kernel that ends loses its array on the emulator, and one that stays must be fed through host
// pipes (0.3 to 2 ms an item there) or by polling memory (a core busy for nothing). With autorun
// kernels on an FPGA `load` happens once and `store` never.
#include <sycl/ext/intel/fpga_extensions.hpp>

using Real = REAL;

enum Operation { kSample, kRetrieve, kSet, kAdd };

// What the host says of a batch; the levels' places follow.
struct Settings {
  int operation;
  int n;
  int first[DEPTH + 1];    // where a level's nodes begin in the tree
  int n_nodes[DEPTH + 1];  // how many there are
};

struct Request {
  int node;
  Real value;  // down: what remains of the target, or the priority found; up: the node's new value
};

template <int level> class DownPipe;
template <int level> class UpPipe;
template <int level> using Down = sycl::ext::intel::pipe<DownPipe<level>, Request, PIPE_DEPTH>;
template <int level> using Up = sycl::ext::intel::pipe<UpPipe<level>, Request, PIPE_DEPTH>;

constexpr int kLevelNodes[] = LEVEL_NODES;

inline bool goes_down(int operation) { return operation == kSample || operation == kRetrieve; }

// The last positive child with less than the target before it; the first one for a target of 0.
inline Request choose_child(const Real* children, Request parent) {
  Real before = 0, before_chosen = 0;
  int chosen = -1;
#pragma unroll
  for (int k = 0; k < FANOUT; ++k) {
    const bool open = children[k] > 0 && (before < parent.value || chosen < 0);
    chosen = open ? k : chosen;
    before_chosen = open ? before : before_chosen;
    before += children[k];
  }
  return {parent.node * FANOUT + (chosen < 0 ? 0 : chosen), parent.value - before_chosen};
}

inline Real sum_of_siblings(const Real* nodes, int node) {
  const Real* siblings = nodes + node / FANOUT * FANOUT;
  Real sum = 0;
#pragma unroll
  for (int k = 0; k < FANOUT; ++k) sum += siblings[k];
  return sum;
}

template <int level>
void look_up(const Real* nodes, int operation, int n) {
  for (int i = 0; i < n; ++i) {
    Request request = Down<level - 1>::read();
    if (operation == kSample) request = choose_child(nodes + request.node * FANOUT, request);
    if (level == DEPTH) request.value = nodes[request.node];
    Down<level>::write(request);
  }
}

template <int level>
void change(Real* nodes, int operation, int n) {
  for (int i = 0; i < n; ++i) {
    const Request request = Up<level>::read();
    const Real before = level == DEPTH && operation == kAdd ? nodes[request.node] : Real(0);
    nodes[request.node] = before + request.value;
    Up<level - 1>::write({request.node / FANOUT, sum_of_siblings(nodes, request.node)});
  }
}

template <int level>
void run_level(Real* tree, const Settings* settings) {
  Real nodes[kLevelNodes[level - 1]];
  Real* const stored = tree + settings->first[level];
  const int n_nodes = settings->n_nodes[level];
  for (int i = 0; i < n_nodes; ++i) nodes[i] = stored[i];
  if (goes_down(settings->operation)) {
    look_up<level>(nodes, settings->operation, settings->n);
    return;
  }
  change<level>(nodes, settings->operation, settings->n);
  for (int i = 0; i < n_nodes; ++i) stored[i] = nodes[i];
}

#define LEVEL_KERNEL(level) \
  SINGLE_TASK_KERNEL void tree_level_##level(Real* tree, const Settings* settings) { \
    run_level<level>(tree, settings); \
  }

SINGLE_TASK_KERNEL void tree_producer(const int* nodes, const Real* values,
                                      const Settings* settings) {
  const int operation = settings->operation;
  for (int i = 0; i < settings->n; ++i) {
    const Request request{operation == kSample ? 0 : nodes[i],
                          operation == kRetrieve ? Real(0) : values[i]};
    if (goes_down(operation))
      Down<0>::write(request);
    else
      Up<DEPTH>::write(request);
  }
}

SINGLE_TASK_KERNEL void tree_consumer(int* nodes, Real* values, Real* tree,
                                      const Settings* settings) {
  const bool down = goes_down(settings->operation);
  for (int i = 0; i < settings->n; ++i) {
    const Request request = down ? Down<DEPTH>::read() : Up<0>::read();
    if (down) {
      nodes[i] = request.node;
      values[i] = request.value;
    } else {
      tree[0] = request.value;
    }
  }
}
