// What one CPU variant offers: plain functions on plain data. The same source (cpu/kernels.cpp) is
// compiled once per variant; dispatch.cpp picks one at run time.
#pragma once

#include <stdint.h>

#include "accel/off_policy_kernels.hpp"

namespace accel {

enum class Start { zero, bias, accumulate };

// C (n_rows, n_columns) = start + A (n_rows, n_depth) B (n_depth, n_columns), every element one chain
// of fused multiply-adds in the order of the depth, whatever its neighbours are.
struct Gemm {
  int n_rows, n_columns, n_depth;
  const float* a;
  int64_t a_row_stride, a_depth_stride;
  const float* b;                          // panels of `panel_width` columns
  int64_t b_depth_stride, b_panel_stride;
  float* c;
  int64_t c_stride;
  int64_t c_panel_stride;  // of panels of `panel_width` columns of C; 0: C is row-major
  Start start;
  const float* bias;   // (n_columns padded to lanes), for Start::bias
  bool c_padded;       // C may be written up to the next multiple of the lanes
  bool b_packed;       // B is packed in panels (else row-major: any panel width will do)
  // Where given, C is multiplied by the activation's derivative at its output y when it is stored.
  const float* y;
  int64_t y_stride;
  int activation;
  bool rectify;  // C becomes max(C, 0) when it is stored
};

// Layers of fewer outputs are narrow: a vector along them would be mostly empty.
constexpr int kNarrow = 8;

// C (n_rows, n_out) = bias + A (n_rows, n_in) B^T with B (n_out, n_in padded): for few outputs,
// vectorised along n_in.
struct NarrowForward {
  int n_rows, n_in, n_out;
  const float* a;
  int64_t a_stride;
  const float* b;
  int64_t b_stride;
  const float* bias;
  float* c;
  int64_t c_stride;
};

// A block of rows of the PPO loss, one contiguous array per column ("stride" rows long, a multiple of
// kRowPadding, so that there are no tails).
struct PpoBlock {
  int n_rows, stride;
  int n_actions;                  // action dimensions, or number of discrete actions
  float* outputs;                 // (n_outputs, stride), standard deviations before the sigmoid
  float* actions;                 // (action columns, stride)
  float* advantages;              // (stride)
  float* old_log;                 // (stride) log-probability of the action when the batch was loaded
  float* log_probability;         // (stride)
  float* entropy;                 // (stride)
  float* d_log_probability;       // (n_outputs, stride) by the outputs
  float* d_entropy;               // (n_outputs, stride)
  float* loss;                    // (stride) -min(r A, clip(r) A)
  float* kl;                      // (stride) (r - 1) - log r
  float* clipped;                 // (stride) 1 where |r - 1| > clip
  float clip, entropy_coefficient;
  float scale;                    // 1 / rows of the whole minibatch
};
constexpr int kRowPadding = 16;

// sum[i] += round(values[s][i] scale) over the sets s, right while |value| scale < 2^51.
constexpr int kMaxSets = 4;
struct FixedPoint {
  const float* values;  // (n_sets, n), a set every `set_stride`
  int64_t set_stride;
  int n_sets;           // 1 to kMaxSets
  int64_t n;
  double scale;         // a power of two
  int64_t* sum;
  float* largest;       // (n_sets) largest |value|; infinity or NaN where there is one
};

struct AdamStep {
  int64_t n;
  const int64_t* sum;   // fixed-point gradient
  float* parameters;
  float* first_moment;
  float* second_moment;
  double unit;          // value of one fixed-point unit
  float clip_factor;
  float beta2, rest1, rest2;  // beta2, 1 - beta1 and 1 - beta2, each rounded once
  float step_size, root_correction, epsilon;
};

enum class Elementary { exp, log, log1p_unit, tanh, sigmoid };

struct Kernels {
  const char* name;
  int lanes;
  int panel_width;  // of packed weights [columns]

  void (*gemm)(const Gemm&);
  void (*narrow_forward)(const NarrowForward&);
  // out (n) = start + sum over rows of a (n_rows, n)
  void (*sum_rows)(const float* a, int64_t stride, int n_rows, int n, float* out, bool accumulate);
  void (*activate)(int activation, float* a, int64_t stride, int n_rows, int n);
  // d *= derivative of the activation, given its output a
  void (*differentiate)(int activation, const float* a, float* d, int64_t stride, int n_rows, int n);

  void (*gaussian)(const PpoBlock&);
  void (*categorical)(const PpoBlock&);
  void (*surrogate)(const PpoBlock&, int n_outputs);

  void (*accumulate_fixed)(const FixedPoint&);
  // sum over i of (sum[i] unit)^2
  double (*squared_norm)(const int64_t* sum, int64_t n, double unit);
  void (*adam)(const AdamStep&);
  OffPolicyKernels off_policy;

  // A bench's yardstick: `n` rounds of independent multiply-adds; returns how many operations.
  double (*multiply_adds)(int64_t n);

  void (*elementary)(int function, const float* x, float* y, int64_t n);
};

// Variants built into this library that this processor can run, best first; ends with nullptr.
const Kernels* const* available_kernels();

// The variant named, or the best one for an empty name. Throws std::invalid_argument.
const Kernels& select_kernels(const char* name);

}  // namespace accel
