// Activations of a block of rows and their derivatives, in terms of the activation's output.
#pragma once

#include "accel/activation.hpp"
#include "elementary.hpp"

namespace accel {
namespace ACCEL_VARIANT {

template <Activation kind>
ACCEL_INLINE Vec activation(Vec x) {
  if (kind == Activation::relu) return at_least(x, Vec{});
  if (kind == Activation::tanh) return tanh(x);
  if (kind == Activation::sigmoid) return sigmoid(x);
  return x;
}

// d * derivative, the derivative given by the output y
template <Activation kind>
ACCEL_INLINE Vec derivative(Vec y, Vec d) {
  if (kind == Activation::relu) return select(y > 0.0f, d, Vec{});
  if (kind == Activation::tanh) return d * fma(-y, y, splat(1.0f));
  if (kind == Activation::sigmoid) return d * (y * (1.0f - y));
  return d;
}

template <Activation kind>
void activate_as(float* a, int64_t stride, int n_rows, int n) {
  for (int row = 0; row < n_rows; ++row, a += stride)
    for (int j = 0; j < n; j += kLanes) store(a + j, activation<kind>(load(a + j)));
}

template <Activation kind>
void differentiate_as(const float* a, float* d, int64_t stride, int n_rows, int n) {
  for (int row = 0; row < n_rows; ++row, a += stride, d += stride)
    for (int j = 0; j < n; j += kLanes) store(d + j, derivative<kind>(load(a + j), load(d + j)));
}

inline void activate(int kind, float* a, int64_t stride, int n_rows, int n) {
  switch (static_cast<Activation>(kind)) {
    case Activation::relu: return activate_as<Activation::relu>(a, stride, n_rows, n);
    case Activation::tanh: return activate_as<Activation::tanh>(a, stride, n_rows, n);
    case Activation::sigmoid: return activate_as<Activation::sigmoid>(a, stride, n_rows, n);
    default: return;
  }
}

inline void differentiate(int kind, const float* a, float* d, int64_t stride, int n_rows, int n) {
  switch (static_cast<Activation>(kind)) {
    case Activation::relu: return differentiate_as<Activation::relu>(a, d, stride, n_rows, n);
    case Activation::tanh: return differentiate_as<Activation::tanh>(a, d, stride, n_rows, n);
    case Activation::sigmoid: return differentiate_as<Activation::sigmoid>(a, d, stride, n_rows, n);
    default: return;
  }
}

}  // namespace ACCEL_VARIANT
}  // namespace accel
