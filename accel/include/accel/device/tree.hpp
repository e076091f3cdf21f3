// The sum tree of a device as the bindings see it: arrays of the host, checked before.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "accel/numbers.hpp"

namespace accel {
namespace device {

class Tree {
 public:
  virtual ~Tree() = default;
  virtual int64_t capacity() const = 0;
  virtual int fanout() const = 0;
  virtual int depth() const = 0;
  virtual std::string device() const = 0;
  virtual double most() const = 0;  // largest priority a row may have
  virtual double total() = 0;
  virtual double largest() = 0;
  virtual void sample(const double* targets, int64_t n, int64_t* indices, double* priorities) = 0;
  virtual void sample_stratified(const double* uniforms, int64_t n, double beta, int64_t* indices,
                                 float* weights) = 0;
  virtual void retrieve(const int64_t* indices, int64_t n, double* priorities) = 0;
  virtual void change(const int64_t* indices, const double* values, int64_t n, bool add) = 0;
  virtual void insert(int64_t start, int64_t n, const double* priority) = 0;  // null: the largest
  virtual void rebuild() = 0;
  virtual void priorities(double* out) = 0;
  virtual void load(const double* priorities, double largest) = 0;

  void update(const int64_t* indices, const double* deltas, int64_t n) {
    change(indices, deltas, n, true);
  }
  void set(const int64_t* indices, const double* priorities, int64_t n) {
    change(indices, priorities, n, false);
  }
  void set_td_errors(const int64_t* indices, const float* errors, int64_t n, double alpha,
                     double epsilon) {
    std::vector<double> priorities(static_cast<size_t>(n));
    double largest = 0;
    for (int64_t i = 0; i < n; ++i) {
      priorities[size_t(i)] = std::pow(std::fabs(double(errors[i])) + epsilon, alpha);
      largest = std::max(largest, priorities[size_t(i)]);
    }
    if (largest > most())
      throw std::invalid_argument("priorities from td_errors must be at most " + to_text(most()) +
                                  ", got " + to_text(largest));
    set(indices, priorities.data(), n);
  }
};

// Smaller than a float32 holds, but not zero: the smallest it holds, so that the row can be drawn.
template <class Real>
Real to_priority(double value) {
  const Real rounded = Real(value);
  return rounded == 0 && value > 0 ? std::numeric_limits<Real>::denorm_min() : rounded;
}

inline int log_of_fanout(int64_t fanout) {
  for (int log = 1; log <= 6; ++log)
    if (fanout == int64_t{1} << log) return log;
  throw std::invalid_argument("fanout must be a power of two from 2 to 64, got " +
                              std::to_string(fanout));
}

inline int64_t checked_capacity(int64_t capacity) {
  if (capacity < 1 || capacity > int64_t{1} << 30)
    throw std::invalid_argument("capacity must be 1 to 2^30 rows, got " + std::to_string(capacity));
  return capacity;
}

}  // namespace device
}  // namespace accel
