// A group of lanes that holds one node's children, one value each: here as arrays of one thread (the
// host, and a SYCL work-item). cuda/lanes.cuh holds them in registers of a warp. All of them add in
// the same order, so that their trees are equal to the bit.
#pragma once

#include "accel/portable/order.hpp"
#include "accel/portable/target.hpp"

namespace accel {
namespace portable {

constexpr int kMostChildren = 64;
constexpr int kMostLanes = 32;  // of a warp: beyond, a lane holds two children

ACCEL_ANYWHERE inline int highest_bit(uint64_t mask) {  // of a mask that is not 0
  int bit = 0;
  for (int step = 32; step > 0; step /= 2)
    if ((mask >> (bit + step)) != 0) bit += step;
  return bit;
}

ACCEL_ANYWHERE inline int lowest_bit(uint64_t mask) { return highest_bit(mask & (~mask + 1)); }

template <int kChildren = kMostChildren, class Order = Forward>
class ArrayLanes {
 public:
  template <class T>
  struct Value {
    T child[kChildren];
    T& operator[](int i) { return child[i]; }
    const T& operator[](int i) const { return child[i]; }
  };

  ArrayLanes(int fanout, Order& order) : fanout_(fanout), order_(order) {}

  template <class T>
  Value<T> load(const T* children) {
    Value<T> value;
    order_.visit(fanout_, [&](int i) { value[i] = children[i]; });
    return value;
  }

  // Bit i: whether it holds for child i.
  template <class Predicate>
  uint64_t ballot(Predicate holds) {
    uint64_t mask = 0;
    order_.visit(fanout_, [&](int i) { mask |= uint64_t(holds(i) ? 1 : 0) << i; });
    return mask;
  }

  template <class T>
  T broadcast(const Value<T>& value, int child) const { return value[child]; }

  // Sum of the children before each. Log-step sums within each half of at most 32, then the first
  // half's total is added to the second's.
  template <class T>
  Value<T> exclusive_sum(const Value<T>& value) {
    const Value<T> sums = inclusive(value);
    const int n = width();
    Value<T> before;
    order_.visit(fanout_, [&](int i) {
      const T within = i % n == 0 ? T(0) : sums[i - 1];
      before[i] = i < n ? within : sums[n - 1] + within;
    });
    return before;
  }

  template <class T>
  T sum(const Value<T>& value) {
    const Value<T> sums = inclusive(value);
    const int n = width();
    return n == fanout_ ? sums[n - 1] : sums[n - 1] + sums[fanout_ - 1];
  }

  // By one lane for the group.
  template <class Function>
  void once(Function function) const { function(); }
  template <class T>
  void store(T* where, T value) const { *where = value; }

 private:
  int width() const { return fanout_ < kMostLanes ? fanout_ : kMostLanes; }

  template <class T>
  Value<T> inclusive(const Value<T>& value) {
    Value<T> from = value, to;
    const int n = width();
    for (int step = 1; step < n; step *= 2) {
      order_.visit(fanout_, [&](int i) {
        to[i] = i % n < step ? from[i] : from[i] + from[i - step];
      });
      from = to;
    }
    return from;
  }

  int fanout_;
  Order& order_;
};

}  // namespace portable
}  // namespace accel
