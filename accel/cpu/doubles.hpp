// Vectors of double, their logarithm and exponential to base 2. Nothing is fused, so every variant
// gives equal bits. x^a is made for float32 results: relative error below 1e-8 between 2^-1022 and 2^1023.
// Polynomials are split in two (by even and odd powers), as their chains of operations take the time.
#pragma once

#include "simd.hpp"

namespace accel {
namespace ACCEL_VARIANT {

constexpr int kDoubles = kLanes / 2;
typedef double DoubleVec __attribute__((vector_size(8 * kDoubles)));
typedef int64_t LongVec __attribute__((vector_size(8 * kDoubles)));
typedef uint64_t UnsignedVec __attribute__((vector_size(8 * kDoubles)));
typedef float HalfVec __attribute__((vector_size(4 * kDoubles)));
typedef double LooseDoubles __attribute__((vector_size(8 * kDoubles), aligned(8), may_alias));
typedef float LooseHalf __attribute__((vector_size(4 * kDoubles), aligned(4), may_alias));

ACCEL_INLINE DoubleVec load(const double* p) { return *reinterpret_cast<const LooseDoubles*>(p); }
ACCEL_INLINE void store(double* p, DoubleVec v) { *reinterpret_cast<LooseDoubles*>(p) = v; }
typedef int64_t LooseLongs __attribute__((vector_size(8 * kDoubles), aligned(8), may_alias));
ACCEL_INLINE LongVec load(const int64_t* p) { return *reinterpret_cast<const LooseLongs*>(p); }
ACCEL_INLINE void store(int64_t* p, LongVec v) { *reinterpret_cast<LooseLongs*>(p) = v; }
ACCEL_INLINE DoubleVec load_doubles(const double* p) { return load(p); }
ACCEL_INLINE DoubleVec load_doubles(const float* p) {
  return __builtin_convertvector(HalfVec(*reinterpret_cast<const LooseHalf*>(p)), DoubleVec);
}
ACCEL_INLINE void store_doubles(double* p, DoubleVec v) { store(p, v); }
ACCEL_INLINE void store_doubles(float* p, DoubleVec v) {
  *reinterpret_cast<LooseHalf*>(p) = __builtin_convertvector(v, HalfVec);
}
ACCEL_INLINE DoubleVec splat(double x) { return x - DoubleVec{}; }

constexpr double inverse_factorial(int n) { return n < 2 ? 1.0 : inverse_factorial(n - 1) / n; }

// log2(x) = e + 2/log(2) atanh(s), x = 2^e m, sqrt(1/2) <= m < sqrt(2), s = (m - 1)/(m + 1); for
// finite x > 0, of which those below 2^-1022 count as that
ACCEL_INLINE DoubleVec log2(DoubleVec x) {
  const DoubleVec least = splat(0x1p-1022);
  const UnsignedVec bits = (UnsignedVec)(x < least ? least : x);
  const uint64_t root_half = 0x3fe6a09e667f3bcd;
  const UnsignedVec k = (bits - root_half + (uint64_t{1024} << 52)) >> 52;  // e + 1024
  const DoubleVec m = (DoubleVec)(bits - (k << 52) + (uint64_t{1024} << 52));
  // A small whole number in the last bits of 2^52 is that number more than 2^52.
  const DoubleVec e = (DoubleVec)(k | 0x4330000000000000) - (0x1p52 + 1024);
  const DoubleVec s = (m - 1.0) / (m + 1.0), t = s * s, t2 = t * t;
  const DoubleVec even = (t2 * (1.0 / 9) + 1.0 / 5) * t2 + 1.0;
  const DoubleVec odd = (t2 * (1.0 / 11) + 1.0 / 7) * t2 + 1.0 / 3;
  return e + s * (even + odd * t) * 2.885390081777927;
}

// exp2(y) = 2^n exp(r), |r| <= log(2) / 2, by Taylor's series; infinity from 1024, 2^-1022 below that
ACCEL_INLINE DoubleVec exp2(DoubleVec y) {
  y = y > 1024.0 ? splat(1024.0) : y;
  y = y < -1022.0 ? splat(-1022.0) : y;
  const DoubleVec magic = splat(0x1.8p52);  // adding it rounds to a whole number
  const DoubleVec shifted = y + magic;
  const DoubleVec r = (y - (shifted - magic)) * 0.6931471805599453, r2 = r * r;
  DoubleVec even = splat(inverse_factorial(8)), odd = splat(inverse_factorial(7));
#pragma GCC unroll 4
  for (int n = 6; n >= 0; n -= 2) even = even * r2 + inverse_factorial(n);
#pragma GCC unroll 4
  for (int n = 5; n >= 1; n -= 2) odd = odd * r2 + inverse_factorial(n);
  const LongVec n = (LongVec)shifted - (LongVec)magic;
  return (even + odd * r) * (DoubleVec)((n + 1023) << 52);
}

// x^a for finite x >= 0 and a; 0^0 = 1
ACCEL_INLINE DoubleVec power(DoubleVec x, double a) {
  const DoubleVec y = exp2(log2(x) * a);
  return x == 0.0 ? splat(a == 0.0 ? 1.0 : 0.0) : y;
}

}  // namespace ACCEL_VARIANT
}  // namespace accel
