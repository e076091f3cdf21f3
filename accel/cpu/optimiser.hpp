// Fixed-point sums of gradients, and Adam. These give the same bits in every variant: ranks on different
// processors must stay equal, so there is no fused multiply-add here, and one order of sums.
#pragma once

#include "accel/kernels.hpp"
#include "simd.hpp"

namespace accel {
namespace ACCEL_VARIANT {

constexpr int kWide = kLanes / 2;  // doubles in a vector
typedef double Wide __attribute__((vector_size(4 * kLanes)));
typedef uint64_t LongVec __attribute__((vector_size(4 * kLanes)));
typedef uint64_t LooseLongVec __attribute__((vector_size(4 * kLanes), aligned(8), may_alias));
typedef float HalfVec __attribute__((vector_size(2 * kLanes)));
typedef float LooseHalfVec __attribute__((vector_size(2 * kLanes), aligned(4), may_alias));

// Adding 1.5 2^52 leaves the rounded integer in the low bits, for |x| < 2^51.
constexpr double kRound = 6755399441055744.0;

// Written out for x86, where GCC 12 widens in two halves and puts them together again.
ACCEL_INLINE Wide widen(HalfVec x) {
#if defined(__AVX512F__)
  return (Wide)_mm512_maskz_cvtps_pd(0xff, (__m256)x);
#elif defined(__AVX__)
  return (Wide)_mm256_cvtps_pd((__m128)x);
#else
  return __builtin_convertvector(x, Wide);
#endif
}

// x scale + kRound; the product by a power of two is exact, so fusing changes no bit.
ACCEL_INLINE Wide scale_and_round(Wide x, Wide scale, Wide round) {
#if defined(__AVX512F__)
  return (Wide)_mm512_fmadd_pd((__m512d)x, (__m512d)scale, (__m512d)round);
#elif defined(__FMA__)
  return (Wide)_mm256_fmadd_pd((__m256d)x, (__m256d)scale, (__m256d)round);
#else
  return x * scale + round;
#endif
}

ACCEL_INLINE uint64_t bits_of(double x) {
  uint64_t bits;
  __builtin_memcpy(&bits, &x, 8);
  return bits;
}

ACCEL_INLINE int32_t magnitude_bits(float x) {
  int32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  return bits & 0x7fffffff;
}

// As integers, magnitudes are ordered like the numbers, with infinity and NaN above all.
ACCEL_INLINE IntVec larger_magnitude(IntVec largest, Vec x) {
  const IntVec magnitude = (IntVec)absolute(x);
  return magnitude > largest ? magnitude : largest;
}

// Several sets of values in one pass, because it is the sums' way through the cache that takes time.
template <int S>
void accumulate_sets(const FixedPoint& arguments) {
  const FixedPoint f = arguments;  // no store can change a local copy
  const Wide round = kRound - Wide{}, scale = f.scale - Wide{};
  const LongVec magic = LongVec{} + S * bits_of(kRound);
  IntVec largest[S] = {};
  int64_t i = 0;
  for (; i + kLanes <= f.n; i += kLanes) {
    for (int s = 0; s < S; ++s)
      largest[s] = larger_magnitude(largest[s], load(f.values + s * f.set_stride + i));
    for (int64_t j = i; j < i + kLanes; j += kWide) {
      LooseLongVec* sum = reinterpret_cast<LooseLongVec*>(f.sum + j);
      LongVec total = *sum - magic;
      for (int s = 0; s < S; ++s) {
        const float* from = f.values + s * f.set_stride + j;
        const HalfVec x = *reinterpret_cast<const LooseHalfVec*>(from);
        total += (LongVec)scale_and_round(widen(x), scale, round);
      }
      *sum = total;
    }
  }
  for (int s = 0; s < S; ++s) {
    int32_t bits = 0;
    for (int lane = 0; lane < kLanes; ++lane)
      bits = largest[s][lane] > bits ? largest[s][lane] : bits;
    for (int64_t j = i; j < f.n; ++j) {
      const float x = f.values[s * f.set_stride + j];
      bits = magnitude_bits(x) > bits ? magnitude_bits(x) : bits;
      const double shifted = static_cast<double>(x) * f.scale + kRound;
      const uint64_t term = bits_of(shifted) - bits_of(kRound);
      f.sum[j] = static_cast<int64_t>(static_cast<uint64_t>(f.sum[j]) + term);
    }
    __builtin_memcpy(f.largest + s, &bits, 4);
  }
}

inline void accumulate_fixed(const FixedPoint& f) {
  switch (f.n_sets) {
    case 1: return accumulate_sets<1>(f);
    case 2: return accumulate_sets<2>(f);
    case 3: return accumulate_sets<3>(f);
    default: return accumulate_sets<4>(f);
  }
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
  for (int64_t i = 0; i < s.n; ++i) {
    const float g = static_cast<float>(static_cast<double>(s.sum[i]) * s.unit) * s.clip_factor;
    const float m = s.first_moment[i] + s.rest1 * (g - s.first_moment[i]);
    const float v = s.beta2 * s.second_moment[i] + s.rest2 * (g * g);
    const float root = __builtin_sqrtf(v) / s.root_correction + s.epsilon;
    s.first_moment[i] = m;
    s.second_moment[i] = v;
    s.parameters[i] -= s.step_size * (m / root);
  }
}

}  // namespace ACCEL_VARIANT
}  // namespace accel
