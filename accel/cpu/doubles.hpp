// Vectors of double, their logarithm and exponential to base 2. Nothing is fused, so every variant
// gives equal bits. Relative error of power: below 1e-14 for results between 1e-30 and 1e30.
#pragma once

#include "simd.hpp"

namespace accel {
namespace ACCEL_VARIANT {

constexpr int kDoubles = kLanes / 2;
typedef double DoubleVec __attribute__((vector_size(8 * kDoubles)));
typedef int64_t LongVec __attribute__((vector_size(8 * kDoubles)));
typedef uint64_t UnsignedVec __attribute__((vector_size(8 * kDoubles)));
typedef double LooseDoubles __attribute__((vector_size(8 * kDoubles), aligned(8), may_alias));

ACCEL_INLINE DoubleVec load(const double* p) { return *reinterpret_cast<const LooseDoubles*>(p); }
ACCEL_INLINE void store(double* p, DoubleVec v) { *reinterpret_cast<LooseDoubles*>(p) = v; }
ACCEL_INLINE DoubleVec splat(double x) { return x - DoubleVec{}; }

// log2(x) = e + 2/log(2) atanh(s), x = 2^e m, sqrt(1/2) <= m < sqrt(2), s = (m - 1)/(m + 1);
// for finite x > 0
ACCEL_INLINE DoubleVec log2(DoubleVec x) {
  const LongVec subnormal = x < 0x1p-1022;
  const UnsignedVec bits = (UnsignedVec)(subnormal ? x * 0x1p54 : x);
  const uint64_t root_half = 0x3fe6a09e667f3bcd;
  const UnsignedVec k = (bits - root_half + (uint64_t{1024} << 52)) >> 52;  // e + 1024
  const DoubleVec m = (DoubleVec)(bits - (k << 52) + (uint64_t{1024} << 52));
  // A small whole number in the last bits of 2^52 is that number more than 2^52.
  const DoubleVec e = (DoubleVec)(k | 0x4330000000000000) - (0x1p52 + 1024);
  const DoubleVec s = (m - 1.0) / (m + 1.0), t = s * s;
  DoubleVec p = splat(1.0 / 19);
#pragma GCC unroll 9
  for (int n = 17; n >= 1; n -= 2) p = p * t + 1.0 / n;
  return (subnormal ? e - 54.0 : e) + s * p * 2.885390081777927;
}

ACCEL_INLINE DoubleVec power_of_two(LongVec n) { return (DoubleVec)((n + 1023) << 52); }

// exp2(y) = 2^n exp(r), |r| <= log(2) / 2, by Taylor's series; infinity and 0 beyond the type
ACCEL_INLINE DoubleVec exp2(DoubleVec y) {
  y = y > 1030.0 ? splat(1030.0) : y;
  y = y < -1100.0 ? splat(-1100.0) : y;
  const DoubleVec magic = splat(0x1.8p52);  // adding it rounds to a whole number
  const DoubleVec shifted = y + magic;
  const DoubleVec r = (y - (shifted - magic)) * 0.6931471805599453;
  DoubleVec p = splat(1.0);
#pragma GCC unroll 13
  for (int n = 13; n >= 1; --n) p = p * r * (1.0 / n) + 1.0;
  // Two factors reach the subnormal results and infinity; 2048 keeps the shift's operand positive.
  const LongVec k = (LongVec)shifted - (LongVec)magic;
  const LongVec half = (LongVec)((UnsignedVec)(k + 2048) >> 1) - 1024;
  return p * power_of_two(half) * power_of_two(k - half);
}

// x^a for finite x >= 0 and a; 0^0 = 1
ACCEL_INLINE DoubleVec power(DoubleVec x, double a) {
  const DoubleVec y = exp2(log2(x) * a);
  return x == 0.0 ? splat(a == 0.0 ? 1.0 : 0.0) : y;
}

}  // namespace ACCEL_VARIANT
}  // namespace accel
