// Vectors of float through the compilers' vector extensions: one source for SSE2, AVX2, AVX-512, NEON.
// No standard library header here or in what includes it: an inline function of the library compiled
// with AVX flags could be the copy the linker keeps for the whole program.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace accel {
namespace ACCEL_VARIANT {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
// 32 registers hold a wider tile of C than 16.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kPanelVectors = 4;
#else
constexpr int kPanelVectors = 2;
#endif

typedef float Vec __attribute__((vector_size(4 * kLanes)));
typedef int32_t IntVec __attribute__((vector_size(4 * kLanes)));
typedef float LooseVec __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));

#define ACCEL_INLINE inline __attribute__((always_inline))

ACCEL_INLINE Vec load(const float* p) { return *reinterpret_cast<const LooseVec*>(p); }
ACCEL_INLINE void store(float* p, Vec v) { *reinterpret_cast<LooseVec*>(p) = v; }
// x - 0 is x for every x, so compilers make this a broadcast.
ACCEL_INLINE Vec splat(float x) { return x - Vec{}; }
ACCEL_INLINE IntVec splat_int(int32_t x) { return x - IntVec{}; }

// Written out, because contraction by the compiler is not the same in every place.
ACCEL_INLINE Vec fma(Vec a, Vec b, Vec c) {
#if defined(__AVX512F__)
  return (Vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
  return (Vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__ARM_NEON)
  return (Vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
  return a * b + c;
#endif
}

ACCEL_INLINE Vec select(IntVec mask, Vec yes, Vec no) { return mask ? yes : no; }
ACCEL_INLINE Vec absolute(Vec x) { return (Vec)((IntVec)x & 0x7fffffff); }
// A NaN in x stays: x86 gives the second operand where one is NaN, NEON gives NaN.
#if defined(__AVX512F__)
// (with a mask of ones: GCC 12 warns of the plain forms' undefined operand)
ACCEL_INLINE Vec at_most(Vec x, Vec limit) {
  return (Vec)_mm512_maskz_min_ps(0xffff, (__m512)limit, (__m512)x);
}
ACCEL_INLINE Vec at_least(Vec x, Vec limit) {
  return (Vec)_mm512_maskz_max_ps(0xffff, (__m512)limit, (__m512)x);
}
#elif defined(__AVX__)
ACCEL_INLINE Vec at_most(Vec x, Vec limit) { return (Vec)_mm256_min_ps((__m256)limit, (__m256)x); }
ACCEL_INLINE Vec at_least(Vec x, Vec limit) { return (Vec)_mm256_max_ps((__m256)limit, (__m256)x); }
#elif defined(__SSE2__)
ACCEL_INLINE Vec at_most(Vec x, Vec limit) { return (Vec)_mm_min_ps((__m128)limit, (__m128)x); }
ACCEL_INLINE Vec at_least(Vec x, Vec limit) { return (Vec)_mm_max_ps((__m128)limit, (__m128)x); }
#else
ACCEL_INLINE Vec at_most(Vec x, Vec limit) { return select(x > limit, limit, x); }
ACCEL_INLINE Vec at_least(Vec x, Vec limit) { return select(x < limit, limit, x); }
#endif

#if defined(__AVX512F__)
constexpr IntVec kLane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#elif defined(__AVX__)
constexpr IntVec kLane = {0, 1, 2, 3, 4, 5, 6, 7};
#else
constexpr IntVec kLane = {0, 1, 2, 3};
#endif

// Keeps the first `n` lanes (n may exceed them), zeroes the others.
ACCEL_INLINE Vec keep_first(Vec x, int n) { return (Vec)((IntVec)x & (kLane < splat_int(n))); }

template <int by>
ACCEL_INLINE Vec rotate(Vec x) {
#if defined(__clang__)
  Vec y;
  for (int i = 0; i < kLanes; ++i) y[i] = x[(i + by) % kLanes];
  return y;
#else
  return __builtin_shuffle(x, (kLane + by) & (kLanes - 1));
#endif
}

// Sixteen partial sums, whatever the vector length, so that every variant adds in one order.
constexpr int kSumVectors = 16 / kLanes;
ACCEL_INLINE float sum_sixteen(const Vec (&partial)[kSumVectors]) {
#if defined(__AVX512F__)
  Vec x = partial[0];
  x += rotate<8>(x);
  x += rotate<4>(x);
#elif defined(__AVX__)
  Vec x = partial[0] + partial[1];
  x += rotate<4>(x);
#else
  Vec x = (partial[0] + partial[2]) + (partial[1] + partial[3]);
#endif
  x += rotate<2>(x);
  x += rotate<1>(x);
  return x[0];
}

}  // namespace ACCEL_VARIANT
}  // namespace accel
