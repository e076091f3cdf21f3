// exp, log, tanh and the logistic function in float32; NaN goes through. Largest error found, in units
// in the last place (without fused multiply-add): exp 1.0 (1.0), log 2.0 (2.0), tanh 4.5 (6), sigmoid 2.8
// (2.8). Coefficients: minimax fits of the relative error, by iteratively reweighted least squares.
#pragma once

#include "simd.hpp"

namespace accel {
namespace ACCEL_VARIANT {

// 2^n for -126 <= n <= 127
ACCEL_INLINE Vec power_of_two(IntVec n) { return (Vec)((n + 127) << 23); }

// exp(x) = 2^n exp(r), |r| <= log(2) / 2
ACCEL_INLINE Vec exp(Vec x) {
  const Vec z = at_least(at_most(x, splat(89.0f)), splat(-104.0f));
  const Vec magic = splat(12582912.0f);  // 1.5 2^23: adding it rounds to an integer
  const Vec shifted = fma(z, splat(1.44269504f), magic);
  const Vec n = shifted - magic;
  Vec r = fma(n, splat(-0.693359375f), z);  // log(2) in two parts, the first exact in few bits
  r = fma(n, splat(2.12194440e-4f), r);
  Vec p = splat(1.3814559914e-03f);
  p = fma(p, r, splat(8.3687356751e-03f));
  p = fma(p, r, splat(4.1668389866e-02f));
  p = fma(p, r, splat(1.6666520477e-01f));
  p = fma(p, r, splat(4.9999993437e-01f));
  p = fma(p * r, r, r) + splat(1.0f);
  const IntVec k = (IntVec)shifted - (IntVec)magic;
  const IntVec half = k >> 1;
  // Two factors reach the subnormal results and infinity.
  const Vec y = p * power_of_two(half) * power_of_two(k - half);
  return select(x == x, y, x);
}

// 2 atanh(s), |s| <= 1/3
ACCEL_INLINE Vec twice_atanh(Vec s) {
  const Vec t = s * s;
  Vec p = splat(1.4005999916e-01f);
  p = fma(p, t, splat(1.4000901421e-01f));
  p = fma(p, t, splat(2.0010763687e-01f));
  p = fma(p, t, splat(3.3333208142e-01f));
  const Vec twice = s + s;
  return fma(twice * t, p, twice);
}

// log(x) for normal x > 0; x = 2^n m, sqrt(1/2) <= m < sqrt(2), log(m) = 2 atanh((m - 1)/(m + 1))
ACCEL_INLINE Vec log(Vec x) {
  const IntVec bits = (IntVec)x - 0x3f3504f3;
  const IntVec n = bits >> 23;
  const Vec m = (Vec)((bits & 0x007fffff) + 0x3f3504f3);
  const Vec e = __builtin_convertvector(n, Vec);
  const Vec y = fma(e, splat(0.69314718f), twice_atanh((m - 1.0f) / (m + 1.0f)));
  const Vec outside = select(x == 0.0f, splat(-__builtin_inff()), splat(__builtin_nanf("")));
  // x - x keeps infinity and NaN out of the finite results.
  return select(x > 0.0f, select(x - x == 0.0f, y, x), outside);
}

// log(1 + x) for 0 <= x <= 1
ACCEL_INLINE Vec log1p_unit(Vec x) { return twice_atanh(x / (x + 2.0f)); }

// tanh(x) = x P(x^2) / Q(x^2), up to where it rounds to 1
ACCEL_INLINE Vec tanh(Vec x) {
  const Vec z = at_least(at_most(x, splat(9.02f)), splat(-9.02f));
  const Vec t = z * z;
  Vec p = splat(1.338418354e-08f);
  p = fma(p, t, splat(2.063513784e-05f));
  p = fma(p, t, splat(3.497389844e-03f));
  p = fma(p, t, splat(1.338262111e-01f));
  p = fma(p, t, splat(1.0f));
  Vec q = splat(7.790025052e-07f);
  q = fma(q, t, splat(3.288424923e-04f));
  q = fma(q, t, splat(2.588407509e-02f));
  q = fma(q, t, splat(4.671594203e-01f));
  q = fma(q, t, splat(1.0f));
  return at_least(at_most(z * p / q, splat(1.0f)), splat(-1.0f));
}

// 1 / (1 + exp(-x)), both sides to relative accuracy
ACCEL_INLINE Vec sigmoid(Vec x) {
  const Vec e = exp(-absolute(x));
  const Vec y = 1.0f / (1.0f + e);
  return select(x < 0.0f, e * y, y);
}

}  // namespace ACCEL_VARIANT
}  // namespace accel
