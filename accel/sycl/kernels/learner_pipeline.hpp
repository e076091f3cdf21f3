// Double DQN on a chain of dense layers as a pipeline: a kernel a stage, joined by pipes, rows going
// through one after the other (Meng et al. 2023). Needs definitions of N_LAYERS, WIDTHS (an
// initialiser: columns of the input and of each layer's output), ACTIVATIONS, N_PIPELINES and
// ROW_DEPTH (rows that a pipe holds).
//
//     producer --> forward 1 --> ... --> forward L --> loss
//                      | inputs kept         |           | d
//                      v                     v           v
//     update <-- aggregate 1 <-- backward 2 <-- ... backward L     (and aggregate 2 to L to update)
//
// Forward stages take three rows at once: s and s' by the parameters, s' by the target parameters.
// A stage keeps its weights, and an aggregation its sums, in on-chip arrays; update adds the
// pipelines' gradients in their order, clips, and does Adam. The step's end, which takes over what
// is new or not, is the shared body.
#include <sycl/ext/intel/fpga_extensions.hpp>

namespace accel {
namespace portable {

constexpr int kWidths[] = WIDTHS;
constexpr int kActivations[] = ACTIVATIONS;

constexpr int layer_size(int layer) { return (kWidths[layer - 1] + 1) * kWidths[layer]; }
constexpr int layer_begin(int layer) {  // in the flat weights
  int begin = 0;
  for (int before = 1; before < layer; ++before) begin += layer_size(before);
  return begin;
}

// Outputs of a layer, 0: the network's inputs.
template <int layer>
struct Columns {
  float of[kWidths[layer]];
};
template <int layer>
struct Passes {
  Columns<layer> present, following, target;
};
template <int layer>
struct Product {  // factors of a layer's gradient
  Columns<layer - 1> x;
  Columns<layer> d;
};
struct Transition {
  int action;  // -1: none of the columns
  float reward, discount, weight;
};
struct Sums {
  Wide loss, value;
};

template <int p, int layer> class OnwardPipe;
template <int p, int layer> class KeptPipe;
template <int p, int layer> class BackPipe;
template <int p, int layer> class ProductPipe;
template <int p, int layer> class GradientPipe;
template <int p> class TransitionPipe;
template <int p> class SumsPipe;

template <class Name, class T, int depth>
using Pipe = sycl::ext::intel::pipe<Name, T, depth>;
template <int p, int layer> using Onward = Pipe<OnwardPipe<p, layer>, Passes<layer>, ROW_DEPTH>;
template <int p, int layer> using Kept = Pipe<KeptPipe<p, layer>, Columns<layer>, ROW_DEPTH>;
template <int p, int layer> using Back = Pipe<BackPipe<p, layer>, Columns<layer>, ROW_DEPTH>;
template <int p, int layer> using Factors = Pipe<ProductPipe<p, layer>, Product<layer>, ROW_DEPTH>;
template <int p, int layer>
using Gradients = Pipe<GradientPipe<p, layer>, float, layer_size(layer)>;
template <int p> using Transitions = Pipe<TransitionPipe<p>, Transition, ROW_DEPTH>;
template <int p> using Measured = Pipe<SumsPipe<p>, Sums, 1>;

template <int layer>
struct Weights {  // on chip: W (n_in, n_out), then b
  float of[layer_size(layer)];
  explicit Weights(const float* flat) {
    for (int i = 0; i < layer_size(layer); ++i) of[i] = flat[layer_begin(layer) + i];
  }
};

template <int p>
void produce_rows(const LearnerView& view) {
  const Pipeline pipeline(view, p);
  for (int r = 0; r < pipeline.share.n; ++r) {
    const int64_t row = pipeline.row(r);
    Passes<0> inputs;
    for (int i = 0; i < kWidths[0]; ++i) {
      inputs.present.of[i] = view.batch->observations[row * kWidths[0] + i];
      inputs.following.of[i] = view.batch->next_observations[row * kWidths[0] + i];
      inputs.target.of[i] = inputs.following.of[i];
    }
    Onward<p, 0>::write(inputs);
    Transitions<p>::write({column_taken(pipeline, r), view.batch->rewards[row],
                           view.batch->discounts[row], pipeline.weight(r)});
  }
}

template <int layer>
Columns<layer> dense(const Weights<layer>& weights, const Columns<layer - 1>& x) {
  constexpr int n_in = kWidths[layer - 1], n_out = kWidths[layer];
  Columns<layer> y;
  for (int j = 0; j < n_out; ++j) y.of[j] = weights.of[n_in * n_out + j];
  for (int i = 0; i < n_in; ++i) {
#pragma unroll UNROLL
    for (int j = 0; j < n_out; ++j) y.of[j] += x.of[i] * weights.of[i * n_out + j];
  }
  for (int j = 0; j < n_out; ++j) y.of[j] = activate(kActivations[layer - 1], y.of[j]);
  return y;
}

template <int p, int layer>
void forward_rows(const LearnerView& view) {
  const Weights<layer> weights(view.parameters), targets(view.target_critic());
  const int n = Share(p, N_PIPELINES, view.n_rows).n;
  for (int r = 0; r < n; ++r) {
    const Passes<layer - 1> x = Onward<p, layer - 1>::read();
    Onward<p, layer>::write({dense<layer>(weights, x.present), dense<layer>(weights, x.following),
                             dense<layer>(targets, x.target)});
    Kept<p, layer - 1>::write(x.present);
  }
}

// As judge_row: loss, value and error of a row, and the gradient by the last layer's x W + b.
template <int p>
void judge_rows(const LearnerView& view) {
  constexpr int n_actions = kWidths[N_LAYERS];
  const Share share(p, N_PIPELINES, view.n_rows);
  const Huber huber{view.numbers.huber_delta};
  Sums sums{0, 0};
  for (int r = 0; r < share.n; ++r) {
    const Passes<N_LAYERS> q = Onward<p, N_LAYERS>::read();
    const Transition t = Transitions<p>::read();
    const float* judge = view.numbers.is_double ? q.following.of : q.target.of;
    const float learnt = t.reward + t.discount * q.target.of[column_of_most(judge, n_actions)];
    const bool is_taken = t.action >= 0;
    const float value = is_taken ? q.present.of[t.action] : not_a_number();
    const float error = value - learnt, loss = t.weight * huber.loss(error);
    Columns<N_LAYERS> d{};
    if (is_taken)
      d.of[t.action] = t.weight * huber.slope(error) / float(view.n_rows) *
                       derivative(kActivations[N_LAYERS - 1], value);
    if (!finite_(loss)) d.of[0] = not_a_number();
    Back<p, N_LAYERS>::write(d);
    view.td_errors[share.first + r] = abs_(error);
    sums.loss += loss;
    sums.value += value;
  }
  Measured<p>::write(sums);
}

template <int p, int layer>
void propagate_back(const LearnerView& view) {
  constexpr int n_in = kWidths[layer - 1], n_out = kWidths[layer];
  const Weights<layer> weights(view.parameters);
  const int n = Share(p, N_PIPELINES, view.n_rows).n;
  for (int r = 0; r < n; ++r) {
    const Product<layer> factors{Kept<p, layer - 1>::read(), Back<p, layer>::read()};
    Columns<layer - 1> d;
    for (int i = 0; i < n_in; ++i) {
      float sum = 0.0f;
#pragma unroll UNROLL
      for (int j = 0; j < n_out; ++j) sum += factors.d.of[j] * weights.of[i * n_out + j];
      d.of[i] = sum * derivative(kActivations[layer - 2], factors.x.of[i]);
    }
    Back<p, layer - 1>::write(d);
    Factors<p, layer>::write(factors);
  }
}

template <int p, int layer>
Product<layer> next_factors() {
  if constexpr (layer == 1)
    return {Kept<p, 0>::read(), Back<p, 1>::read()};
  else
    return Factors<p, layer>::read();
}

template <int p, int layer>
void aggregate_rows(const LearnerView& view) {
  constexpr int n_in = kWidths[layer - 1], n_out = kWidths[layer];
  float sums[layer_size(layer)];
  for (int i = 0; i < layer_size(layer); ++i) sums[i] = 0.0f;
  const int n = Share(p, N_PIPELINES, view.n_rows).n;
  for (int r = 0; r < n; ++r) {
    const Product<layer> factors = next_factors<p, layer>();
    for (int i = 0; i <= n_in; ++i) {
      const float x = i < n_in ? factors.x.of[i] : 1.0f;  // the last row: the bias
#pragma unroll UNROLL
      for (int j = 0; j < n_out; ++j) sums[i * n_out + j] += x * factors.d.of[j];
    }
  }
  for (int i = 0; i < layer_size(layer); ++i) Gradients<p, layer>::write(sums[i]);
}

template <int layer, int p = 0>
float next_gradient() {
  const float own = Gradients<p, layer>::read();
  if constexpr (p + 1 < N_PIPELINES)
    return own + next_gradient<layer, p + 1>();
  else
    return own;
}

template <int layer>
Wide take_gradients(const LearnerView& view) {
  Wide squares = 0;
  for (int i = 0; i < layer_size(layer); ++i) {
    const float g = next_gradient<layer>();
    view.gradient[layer_begin(layer) + i] = g;
    squares += Wide(g) * Wide(g);
  }
  if constexpr (layer < N_LAYERS) squares += take_gradients<layer + 1>(view);
  return squares;
}

template <int p = 0>
Sums take_sums() {
  const Sums own = Measured<p>::read();
  if constexpr (p + 1 < N_PIPELINES) {
    const Sums rest = take_sums<p + 1>();
    return {own.loss + rest.loss, own.value + rest.value};
  } else {
    return own;
  }
}

inline void update(const LearnerView& view, bool applies) {
  const float norm = float(sqrt_(take_gradients<1>(view)));
  const Sums sums = take_sums();
  view.outcome->critic_loss = float(sums.loss / view.n_rows);
  view.outcome->mean_value = float(sums.value / view.n_rows);
  if (!applies) return;  // the gradient was asked for alone
  view.outcome->norms[kCritic] = norm;
  view.outcome->failed[kCritic] = finite_(norm) ? 0 : 1;
  if (!finite_(norm)) return;
  const AdamNumbers& numbers = view.numbers.adam[kCritic];
  const float factor = clip_factor(numbers, norm);
  const float n_steps = float(view.counters[kCriticSteps] + 1);
  for (int64_t i = 0; i < view.n_parameters; ++i) adam(view, numbers, i, factor, n_steps);
}

}  // namespace portable
}  // namespace accel

#define LEARNER_STAGE(name, ...)                                      \
  SINGLE_TASK_KERNEL void name(accel::portable::LearnerView view) {   \
    accel::portable::__VA_ARGS__(view);                               \
  }
#define PIPELINE_KERNELS(p)                           \
  LEARNER_STAGE(learner_producer_##p, produce_rows<p>) \
  LEARNER_STAGE(learner_loss_##p, judge_rows<p>)
#define LAYER_KERNELS(p, layer)                                           \
  LEARNER_STAGE(learner_forward_##p##_##layer, forward_rows<p, layer>)     \
  LEARNER_STAGE(learner_aggregate_##p##_##layer, aggregate_rows<p, layer>)
#define BACKWARD_KERNEL(p, layer) \
  LEARNER_STAGE(learner_backward_##p##_##layer, propagate_back<p, layer>)

SINGLE_TASK_KERNEL void learner_update(accel::portable::LearnerView view, int applies) {
  accel::portable::update(view, applies != 0);
}
