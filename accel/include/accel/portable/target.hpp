// What differs between the compilers that take the portable kernel bodies: nvcc (CUDA), the SYCL
// run-time compiler (define ACCEL_PORTABLE_SYCL, include <sycl/sycl.hpp> first) and a plain host
// compiler. The bodies use no standard library, no virtual functions, no recursion and no exceptions.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define ACCEL_DEVICE __device__
#define ACCEL_ANYWHERE __host__ __device__
#define ACCEL_UNROLL _Pragma("unroll")
#else
#define ACCEL_DEVICE
#define ACCEL_ANYWHERE
#define ACCEL_UNROLL
#endif

#if !defined(ACCEL_PORTABLE_SYCL)
#include <cmath>
#endif

namespace accel {
namespace portable {

// Sums of many terms. A device without float64 defines ACCEL_WIDE_FLOAT.
#if defined(ACCEL_WIDE_FLOAT)
using Wide = float;
#else
using Wide = double;
#endif

#if defined(ACCEL_PORTABLE_SYCL)
#define ACCEL_MATH(name, call) \
  template <class Real>        \
  inline Real name##_(Real x) { return sycl::call(x); }
#elif defined(__CUDACC__)
#define ACCEL_MATH(name, call) \
  template <class Real>        \
  __device__ inline Real name##_(Real x) { return ::call(x); }
#else
#define ACCEL_MATH(name, call) \
  template <class Real>        \
  inline Real name##_(Real x) { return std::call(x); }
#endif

ACCEL_MATH(exp, exp)
ACCEL_MATH(expm1, expm1)
ACCEL_MATH(log, log)
ACCEL_MATH(log1p, log1p)
ACCEL_MATH(tanh, tanh)
ACCEL_MATH(sqrt, sqrt)
ACCEL_MATH(sin, sin)
ACCEL_MATH(cos, cos)
#undef ACCEL_MATH

template <class Real>
ACCEL_DEVICE inline Real pow_(Real x, Real y) {
#if defined(ACCEL_PORTABLE_SYCL)
  return sycl::pow(x, y);
#elif defined(__CUDACC__)
  return ::pow(x, y);
#else
  return std::pow(x, y);
#endif
}

template <class Real>
ACCEL_ANYWHERE inline Real abs_(Real x) { return x < 0 ? -x : x; }

template <class Real>
ACCEL_ANYWHERE inline bool finite_(Real x) { return x - x == 0; }

// NaN stays NaN.
template <class Real>
ACCEL_ANYWHERE inline Real clamp_(Real x, Real low, Real high) {
  return x < low ? low : x > high ? high : x;
}

template <class T>
ACCEL_ANYWHERE inline T least(T a, T b) { return b < a ? b : a; }

template <class T>
ACCEL_ANYWHERE inline T most(T a, T b) { return a < b ? b : a; }

}  // namespace portable
}  // namespace accel
