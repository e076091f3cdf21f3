// Adam on float32 gradients in the order of the packed weights, and what belongs to it.
#pragma once

#include "accel/off_policy_kernels.hpp"
#include "optimiser.hpp"

namespace accel {
namespace ACCEL_VARIANT {

inline double sum_sets(float* const* sets, int n_sets, int64_t offset, int64_t n) {
  float* sum = sets[0] + offset;
  // Sixteen partial sums, whatever the vector length, so that every variant adds in one order.
  constexpr int parts = 16 / kWide;
  Wide squares[parts] = {};
  for (int64_t i = 0; i < n; i += 16) {
    for (int v = 0; v < 16; v += kLanes) {
      Vec x = load(sum + i + v);
      for (int s = 1; s < n_sets; ++s) x += load(sets[s] + offset + i + v);
      if (n_sets > 1) store(sum + i + v, x);
    }
    for (int p = 0; p < parts; ++p) {
      const Wide x = widen(*reinterpret_cast<const LooseHalfVec*>(sum + i + p * kWide));
      squares[p] += x * x;
    }
  }
  double total = 0.0;
  for (int p = 0; p < parts; ++p)
    for (int lane = 0; lane < kWide; ++lane) total += squares[p][lane];
  return total;
}

ACCEL_INLINE Vec square_root(Vec x) {
#if defined(__AVX512F__)
  return (Vec)_mm512_maskz_sqrt_ps(0xffff, (__m512)x);
#elif defined(__AVX__)
  return (Vec)_mm256_sqrt_ps((__m256)x);
#elif defined(__SSE2__)
  return (Vec)_mm_sqrt_ps((__m128)x);
#else
  Vec y;
  for (int lane = 0; lane < kLanes; ++lane) y[lane] = __builtin_sqrtf(x[lane]);
  return y;
#endif
}

// Kingma & Ba 2015, as torch.optim.Adam: bias-corrected, epsilon outside the root.
inline void float_adam(const FloatAdam& step) {
  const FloatAdam s = step;  // no store can change a local copy
  for (int64_t i = 0; i < s.n; i += kLanes) {
    const Vec g = load(s.gradient + i) * s.clip_factor;
    const Vec old = load(s.first_moment + i);
    const Vec m = fma(splat(s.rest1), g - old, old);
    const Vec v = fma(g * g, splat(s.rest2), load(s.second_moment + i) * s.beta2);
    const Vec root = fma(square_root(v), splat(s.root_factor), splat(s.epsilon));
    store(s.new_first + i, m);
    store(s.new_second + i, v);
    store(s.new_parameters + i, load(s.parameters + i) - m * s.step_size / root);
  }
}

inline void move_towards(float* to, const float* from, float rate, int64_t n) {
  for (int64_t i = 0; i < n; i += kLanes) {
    const Vec old = load(to + i), aim = load(from + i);
    // The whole way, exactly.
    store(to + i, rate == 1.0f ? aim : fma(splat(rate), aim - old, old));
  }
}

// Of two vectors a, b: a0 b0 a1 b1 ..., the first and the second half.
ACCEL_INLINE void interleave(Vec a, Vec b, Vec& first, Vec& second) {
  IntVec low, high;
  for (int i = 0; i < kLanes; ++i) {
    low[i] = i / 2 + (i % 2) * kLanes;
    high[i] = low[i] + kLanes / 2;
  }
#if defined(__clang__)
  for (int i = 0; i < kLanes; ++i) {
    first[i] = i % 2 ? b[i / 2] : a[i / 2];
    second[i] = i % 2 ? b[i / 2 + kLanes / 2] : a[i / 2 + kLanes / 2];
  }
#else
  first = __builtin_shuffle(a, b, low);
  second = __builtin_shuffle(a, b, high);
#endif
}

// A square of kLanes by kLanes; each round interleaves what lies half a square apart.
ACCEL_INLINE void transpose_square(const float* from, int64_t from_stride, float* to,
                                   int64_t to_stride) {
  Vec x[kLanes], y[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) x[i] = load(from + i * from_stride);
#pragma GCC unroll 4
  for (int round = kLanes; round > 1; round /= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < kLanes / 2; ++i) interleave(x[i], x[i + kLanes / 2], y[2 * i], y[2 * i + 1]);
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) x[i] = y[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) store(to + i * to_stride, x[i]);
}

inline void transpose_panel(const float* panel, int n_rows, int n_columns, float* to,
                            int64_t panel_stride) {
  constexpr int width = kPanelVectors * kLanes;
  for (int row = 0; row < n_rows; row += kLanes) {
    float* block = to + row / width * panel_stride + row % width;
    for (int column = 0; column < n_columns; column += kLanes) {
      const float* from = panel + int64_t{row} * width + column;
      if (row + kLanes <= n_rows && column + kLanes <= n_columns) {
        transpose_square(from, width, block + int64_t{column} * width, width);
        continue;
      }
      for (int k = row; k < n_rows && k < row + kLanes; ++k)
        for (int j = column; j < n_columns && j < column + kLanes; ++j)
          block[int64_t{j} * width + k - row] = panel[int64_t{k} * width + j];
    }
  }
}

}  // namespace ACCEL_VARIANT
}  // namespace accel
