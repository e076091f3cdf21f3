// A node's children in the registers of neighbouring lanes of a warp: the device's form of
// portable/lanes.hpp, with the same order of sums. Beyond 32 children a lane holds two, 32 apart.
#pragma once

#include "accel/portable/lanes.hpp"

namespace accel {
namespace cuda {

constexpr unsigned kWholeWarp = 0xffffffffu;

// All lanes of a warp call together, whatever group they belong to.
template <int kParts>
class WarpLanes {
 public:
  template <class T>
  struct Value {
    T part[kParts];
    __device__ T& operator[](int child) {
      return kParts == 1 || child < portable::kMostLanes ? part[0] : part[kParts - 1];
    }
    __device__ const T& operator[](int child) const {
      return kParts == 1 || child < portable::kMostLanes ? part[0] : part[kParts - 1];
    }
  };

  __device__ WarpLanes(int width, int lane) : width_(width), lane_(lane) {}

  template <class T>
  __device__ Value<T> load(const T* children) const {
    Value<T> value;
#pragma unroll
    for (int j = 0; j < kParts; ++j) value.part[j] = children[lane_ + j * portable::kMostLanes];
    return value;
  }

  template <class Predicate>
  __device__ uint64_t ballot(Predicate holds) const {
    const int first = int(threadIdx.x) % portable::kMostLanes - lane_;  // lane of the group's first
    uint64_t mask = 0;
#pragma unroll
    for (int j = 0; j < kParts; ++j) {
      const unsigned all = __ballot_sync(kWholeWarp, holds(lane_ + j * portable::kMostLanes));
      const unsigned own = (all >> first) & (width_ == 32 ? kWholeWarp : (1u << width_) - 1u);
      mask |= uint64_t(own) << (j * portable::kMostLanes);
    }
    return mask;
  }

  template <class T>
  __device__ T broadcast(const Value<T>& value, int child) const {
    return __shfl_sync(kWholeWarp, value[child], child % portable::kMostLanes, width_);
  }

  template <class T>
  __device__ Value<T> exclusive_sum(const Value<T>& value) const {
    Value<T> before;
    T halves = T(0);  // sum of the parts so far
#pragma unroll
    for (int j = 0; j < kParts; ++j) {
      const T sums = inclusive(value.part[j]);
      const T left = __shfl_up_sync(kWholeWarp, sums, 1, width_);
      const T within = lane_ == 0 ? T(0) : left;
      before.part[j] = j == 0 ? within : halves + within;
      halves = __shfl_sync(kWholeWarp, sums, width_ - 1, width_);
    }
    return before;
  }

  template <class T>
  __device__ T sum(const Value<T>& value) const {
    T total = __shfl_sync(kWholeWarp, inclusive(value.part[0]), width_ - 1, width_);
#pragma unroll
    for (int j = 1; j < kParts; ++j)
      total += __shfl_sync(kWholeWarp, inclusive(value.part[j]), width_ - 1, width_);
    return total;
  }

  template <class Function>
  __device__ void once(Function function) const {
    if (lane_ == 0) function();
  }
  template <class T>
  __device__ void store(T* where, T value) const {
    if (lane_ == 0) *where = value;
  }

 private:
  template <class T>
  __device__ T inclusive(T sum) const {
    for (int step = 1; step < width_; step *= 2) {
      const T left = __shfl_up_sync(kWholeWarp, sum, step, width_);
      if (lane_ >= step) sum = sum + left;
    }
    return sum;
  }

  int width_, lane_;  // lanes of the group, this one's position
};

}  // namespace cuda
}  // namespace accel
