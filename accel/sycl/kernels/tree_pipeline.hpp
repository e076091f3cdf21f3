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
// deltas that go down: D levels deep, a new change entering while the last ones are on their way.
//
// Nodes come from global memory when a batch begins and changed levels go back when it ends: a
// kernel that ends loses its array on the emulator, and one that stays must be fed through host
// pipes (0.3 to 2 ms an item there) or by polling memory (a core busy for nothing). A million leaves
// cost a batch some 0.2 ms more than 65,536. With autorun kernels on an FPGA the arrays stay.
#include <sycl/ext/intel/fpga_extensions.hpp>

#include "accel/sycl/tree_batch.hpp"

namespace accel {
namespace portable {

using Real = REAL;

struct Request {
  int node;
  Real value;   // down: what remains of the target, or the priority found; up: the new value
  bool counts;  // false: a change that another one of the batch overrides
};

template <int level> class DownPipe;
template <int level> class UpPipe;
template <int level> using Down = sycl::ext::intel::pipe<DownPipe<level>, Request, PIPE_DEPTH>;
template <int level> using Up = sycl::ext::intel::pipe<UpPipe<level>, Request, PIPE_DEPTH>;

constexpr int kLevelNodes[] = LEVEL_NODES;

// A tree of fewer levels fills the last ones; those above have one node and pass everything on.
template <int level>
int tree_level(const Tree<Real>& tree) { return level - DEPTH + tree.shape.depth; }

template <int level>
void look_up(const Real* nodes, bool passes, TreeOperation operation, int64_t n) {
  Forward order;
  ArrayLanes<FANOUT> lanes(FANOUT, order);
  for (int64_t i = 0; i < n; ++i) {
    Request request = Down<level - 1>::read();
    if (operation == kSample && !passes) {
      request.node *= FANOUT;
      request.node += choose_child(lanes, nodes + request.node, request.value);
    }
    if (level == DEPTH) request.value = nodes[request.node];
    Down<level>::write(request);
  }
}

template <int level>
void change(Real* nodes, bool passes, int64_t n) {
  Forward order;
  ArrayLanes<FANOUT> lanes(FANOUT, order);
  for (int64_t i = 0; i < n; ++i) {
    Request request = Up<level>::read();
    if (request.counts && !passes) {
      nodes[request.node] = request.value;
      request.node /= FANOUT;
      request.value = lanes.sum(lanes.load(nodes + request.node * FANOUT));
    }
    Up<level - 1>::write(request);
  }
}

template <int level>
void run_level(const Tree<Real>& tree, TreeOperation operation, int64_t n) {
  Real nodes[kLevelNodes[level - 1]];
  const int own = tree_level<level>(tree);
  const bool passes = own < 1;
  Real* const stored = tree.level(passes ? 0 : own);
  const int n_nodes = passes ? 1 : int(tree.shape.first[own + 1] - tree.shape.first[own]);
  for (int i = 0; i < n_nodes; ++i) nodes[i] = stored[i];
  if (operation == kSample || operation == kRetrieve) {
    look_up<level>(nodes, passes, operation, n);
    return;
  }
  change<level>(nodes, passes, n);
  if (passes) return;
  for (int i = 0; i < n_nodes; ++i) stored[i] = nodes[i];
}

inline Request new_priority(const TreeBatch<Real>& batch, int64_t j) {
  const Change<Real>& change = batch.change;
  if (batch.operation == kFill) return {int(batch.start + j), batch.value, true};
  // As in Change::write: nothing is changed where anything of the call was refused.
  if (change.tree.status->first_bad != kNoneBad || !change.counts(j)) return {0, 0, false};
  const Real priority = change.result(j);
  *change.tree.largest = most(*change.tree.largest, to_bits(priority));
  return {int(change.indices[j]), priority, true};
}

inline void produce(const TreeBatch<Real>& batch) {
  const SampleTree<Real>& sample = batch.sample;
  for (int64_t j = batch.first; j < batch.first + batch.n; ++j) {
    if (batch.operation == kSample)
      Down<0>::write({0, sample.target(j, sample.tree.total()), true});
    else if (batch.operation == kRetrieve)
      Down<0>::write({int(sample.indices[j]), 0, true});
    else
      Up<DEPTH>::write(new_priority(batch, j));
  }
}

inline void consume(const TreeBatch<Real>& batch) {
  const SampleTree<Real>& sample = batch.sample;
  for (int64_t j = batch.first; j < batch.first + batch.n; ++j) {
    const Request request = batch.goes_down() ? Down<DEPTH>::read() : Up<0>::read();
    if (!batch.goes_down()) {
      if (request.counts) sample.tree.nodes[0] = request.value;
      continue;
    }
    sample.indices[j] = request.node;
    sample.priorities[j] = request.value;
    if (sample.least_priority != nullptr)
      *sample.least_priority = least(*sample.least_priority, to_bits(request.value));
  }
}

}  // namespace portable
}  // namespace accel

SINGLE_TASK_KERNEL void tree_producer(accel::portable::TreeBatch<REAL> batch) {
  accel::portable::produce(batch);
}

SINGLE_TASK_KERNEL void tree_consumer(accel::portable::TreeBatch<REAL> batch) {
  accel::portable::consume(batch);
}

#define LEVEL_KERNEL(level)                                              \
  SINGLE_TASK_KERNEL void tree_level_##level(                            \
      accel::portable::Tree<REAL> tree, int operation, int64_t n) {      \
    accel::portable::run_level<level>(                                   \
        tree, accel::portable::TreeOperation(operation), n);             \
  }
