// What one CPU variant offers to off-policy learning: losses, noise and an optimiser in float32.
// Arrays of a loss are one contiguous column after the other, each `stride` long, a multiple of kRowPadding.
#pragma once

#include <stdint.h>

namespace accel {

// y = r + discount Q'(s', argmax chooser), loss = w huber(Q(s, a) - y)
struct DqnBlock {
  int stride, n_actions;
  const float* q;          // (n_actions, stride) of s
  const float* chooser;    // (n_actions, stride) of s': its largest decides
  const float* q_next;     // (n_actions, stride) of s', by the targets
  const float* actions;    // (stride)
  const float *rewards, *discounts, *weights;
  float delta, scale;      // where the loss becomes linear; 1 / rows of the batch
  float* d_q;              // (n_actions, stride) gradient by q
  float *td_errors, *loss, *value;
};

// y = r + discount (min Q' + bonus), loss = sum over critics of w (Q_k - y)^2 / 2
struct CriticBlock {
  int stride, n_critics;
  const float* q;          // (n_critics, stride)
  const float* q_next;     // (n_critics, stride)
  const float* log_probability;  // (stride) of the next action, or null
  float alpha;             // bonus = -alpha log_probability
  const float *rewards, *discounts, *weights;
  float scale;
  float* d_q;
  float *td_errors, *loss, *value;
};

// A squashed normal: a = tanh(u), u = m + exp(l) noise.
struct SquashBlock {
  int stride, n_actions;
  const float* outputs;    // (2 n_actions, stride) means m, then l before it is cut
  const float* noise;      // (n_actions, stride)
  float low, high;         // of l
  float* actions;          // (n_actions, stride)
  float* spread;           // (n_actions, stride) exp(l) noise
  float* log_probability;  // (stride)
};

// loss = alpha log pi - min Q; of Q the gradient, which then makes that by the actor's outputs.
struct PolicyBlock {
  int stride, n_critics;
  const float* q;                // (n_critics, stride)
  const float* log_probability;  // (stride), or null
  float alpha, scale;
  float* d_q;                    // (n_critics, stride)
  float* loss;                   // (stride)
};

struct SquashGradient {
  int stride, n_actions;
  const float *outputs, *actions, *spread;  // as in SquashBlock
  float low, high, alpha, scale;
  const float* d_actions;  // (n_actions, stride) gradient by the actions, through the critics
  float* d_outputs;        // (2 n_actions, stride)
};

struct Normals {
  uint64_t seed;
  uint32_t step, stream, first_row;
  int n_actions, stride;
  float* out;              // (n_actions, stride)
};

// From one set of parameters and moments to another, or in place.
struct FloatAdam {
  int64_t n;               // a multiple of 16
  const float* gradient;
  const float *parameters, *first_moment, *second_moment;
  float *new_parameters, *new_first, *new_second;
  float clip_factor, rest1, beta2, rest2, step_size, root_factor, epsilon;
};

struct OffPolicyKernels {
  // sets[0] = sum over the sets in their order; returns the sum of its squares. n: a multiple of 16.
  double (*sum_sets)(float* const* sets, int n_sets, int64_t offset, int64_t n);
  void (*adam)(const FloatAdam&);
  // to += rate (from - to)
  void (*move_towards)(float* to, const float* from, float rate, int64_t n);
  // A panel (n_rows, panel_width) of packed weights into panels of the transposed matrix: its row j
  // lies at `to + j * panel_width`, the next panel of rows `panel_stride` further.
  void (*transpose_panel)(const float* panel, int n_rows, int n_columns, float* to,
                          int64_t panel_stride);
  void (*normals)(const Normals&);
  void (*dqn_loss)(const DqnBlock&);
  void (*critic_loss)(const CriticBlock&);
  // actions <- clip(actions + clip(deviation noise, -limit, limit), -1, 1)
  void (*smooth_actions)(float* actions, const float* noise, int64_t n, float deviation,
                         float limit);
  void (*squash)(const SquashBlock&);
  void (*policy_loss)(const PolicyBlock&);
  void (*squash_gradient)(const SquashGradient&);
};

}  // namespace accel
