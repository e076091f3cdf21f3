// Largest and least of many threads' values. Neither depends on the order in which they come.
#pragma once

#include "accel/portable/target.hpp"

namespace accel {
namespace portable {

#if defined(ACCEL_PORTABLE_SYCL)
template <class T>
using DeviceAtomic = sycl::atomic_ref<T, sycl::memory_order::relaxed, sycl::memory_scope::device,
                                      sycl::access::address_space::global_space>;

template <class T>
inline void atomic_max(T* p, T value) { DeviceAtomic<T>(*p).fetch_max(value); }
template <class T>
inline void atomic_min(T* p, T value) { DeviceAtomic<T>(*p).fetch_min(value); }

#elif defined(__CUDACC__)
__device__ inline void atomic_max(int32_t* p, int32_t value) { ::atomicMax(p, value); }
__device__ inline void atomic_min(int32_t* p, int32_t value) { ::atomicMin(p, value); }
__device__ inline void atomic_max(int64_t* p, int64_t value) {
  ::atomicMax(reinterpret_cast<long long*>(p), static_cast<long long>(value));
}
__device__ inline void atomic_min(int64_t* p, int64_t value) {
  ::atomicMin(reinterpret_cast<long long*>(p), static_cast<long long>(value));
}

#else
template <class T>
inline void atomic_max(T* p, T value) { *p = most(*p, value); }
template <class T>
inline void atomic_min(T* p, T value) { *p = least(*p, value); }
#endif

// Reals of one sign are ordered as their bits are: atomics on integers serve them.
template <class Real>
struct BitsOf;
template <>
struct BitsOf<float> {
  using type = int32_t;
};
template <>
struct BitsOf<double> {
  using type = int64_t;
};
template <class Real>
using Bits = typename BitsOf<Real>::type;

template <class Real>
ACCEL_ANYWHERE inline Bits<Real> to_bits(Real x) {
  Bits<Real> bits;
  __builtin_memcpy(&bits, &x, sizeof(x));
  return bits;
}

template <class Real>
ACCEL_ANYWHERE inline Real from_bits(Bits<Real> bits) {
  Real x;
  __builtin_memcpy(&x, &bits, sizeof(x));
  return x;
}

}  // namespace portable
}  // namespace accel
