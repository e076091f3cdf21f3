// Fixed-point sums of gradients, and Adam. These give the same bits in every variant: ranks on different
// processors must stay equal, so there is no fused multiply-add here, and one order of sums.
#pragma once

#include "accel/kernels.hpp"
#include "simd.hpp"

namespace accel {
namespace ACCEL_VARIANT {

constexpr int kWide = kLanes / 2;  // doubles in a vector
typedef double Wide __attribute__((vector_size(4 * kLanes)));
typedef int64_t LongVec __attribute__((vector_size(4 * kLanes)));
typedef int64_t LooseLongVec __attribute__((vector_size(4 * kLanes), aligned(8), may_alias));
typedef float HalfVec __attribute__((vector_size(2 * kLanes)));
typedef float LooseHalfVec __attribute__((vector_size(2 * kLanes), aligned(4), may_alias));

// Adding 1.5 2^52 leaves the rounded integer in the low bits, for |x| < 2^51.
constexpr double kRound = 6755399441055744.0;

ACCEL_INLINE int64_t to_fixed(double x) {
  const double shifted = x + kRound;
  int64_t bits, magic;
  __builtin_memcpy(&bits, &shifted, 8);
  __builtin_memcpy(&magic, &kRound, 8);
  return bits - magic;
}

inline float accumulate_fixed(const float* values, int64_t n, double scale, int64_t* sum) {
  const Wide round = kRound - Wide{}, wide_scale = scale - Wide{};
  // As integers, magnitudes are ordered like the numbers, with infinity and NaN above all.
  IntVec largest{};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const IntVec magnitude = (IntVec)absolute(load(values + i));
    largest = magnitude > largest ? magnitude : largest;
    for (int64_t j = i; j < i + kLanes; j += kWide) {
      const HalfVec x = *reinterpret_cast<const LooseHalfVec*>(values + j);
      const Wide shifted = __builtin_convertvector(x, Wide) * wide_scale + round;
      LooseLongVec* p = reinterpret_cast<LooseLongVec*>(sum + j);
      *p += (LongVec)shifted - (LongVec)round;
    }
  }
  int32_t bits = 0;
  for (int lane = 0; lane < kLanes; ++lane) bits = largest[lane] > bits ? largest[lane] : bits;
  for (; i < n; ++i) {
    int32_t magnitude;
    __builtin_memcpy(&magnitude, values + i, 4);
    magnitude &= 0x7fffffff;
    bits = magnitude > bits ? magnitude : bits;
    sum[i] += to_fixed(static_cast<double>(values[i]) * scale);
  }
  float result;
  __builtin_memcpy(&result, &bits, 4);
  return result;
}

inline double squared_norm(const int64_t* sum, int64_t n, double unit) {
  double partial[8] = {};
  for (int64_t i = 0; i < n; ++i) {
    const double g = static_cast<double>(sum[i]) * unit;
    partial[i % 8] += g * g;
  }
  for (int half = 4; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) partial[i] += partial[i + half];
  return partial[0];
}

// Kingma & Ba 2015, as torch.optim.Adam: bias-corrected, epsilon outside the root.
inline void adam(const AdamStep& s) {
  const float rest1 = 1.0f - s.beta1, rest2 = 1.0f - s.beta2;
  for (int64_t i = 0; i < s.n; ++i) {
    const float g = static_cast<float>(static_cast<double>(s.sum[i]) * s.unit) * s.clip_factor;
    const float m = s.first_moment[i] + rest1 * (g - s.first_moment[i]);
    const float v = s.beta2 * s.second_moment[i] + rest2 * (g * g);
    const float root = __builtin_sqrtf(v) / s.root_correction + s.epsilon;
    s.first_moment[i] = m;
    s.second_moment[i] = v;
    s.parameters[i] -= s.step_size * (m / root);
  }
}

}  // namespace ACCEL_VARIANT
}  // namespace accel
