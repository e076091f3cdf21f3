// Forward and backward pass of a tree of dense layers over the rows of one block.
//
// Every layer keeps its outputs, (n_rows, n_out) row by row, one layer after the other.
#pragma once

#include "accel/portable/product.hpp"

namespace accel {
namespace portable {

// As accel::Layer and its offsets, in device memory.
struct LayerView {
  int source, begin, n_in, n_out;
  int activation;    // code as accel::Activation
  int output;        // first column of the network's output row, -1: hidden
  int64_t weights;   // of W in the flat weights
  int64_t bias;      // of b
  int64_t columns;   // columns that the layers before it make
};

struct NetworkView {
  const LayerView* layers;
  int n_layers, n_inputs, n_outputs;
  int64_t n_columns;  // that all layers make
  int64_t n_weights;
};

constexpr int kRelu = 1, kTanh = 2, kSigmoid = 3;

// NaN stays NaN.
ACCEL_DEVICE inline float activate(int kind, float x) {
  if (kind == kRelu) return x < 0.0f ? 0.0f : x;
  if (kind == kTanh) return tanh_(x);
  if (kind == kSigmoid) return 0.5f + 0.5f * tanh_(0.5f * x);
  return x;
}

ACCEL_DEVICE inline float derivative(int kind, float y) {  // from the activation's output
  if (kind == kRelu) return y > 0.0f ? 1.0f : 0.0f;
  if (kind == kTanh) return 1.0f - y * y;
  if (kind == kSigmoid) return y * (1.0f - y);
  return 1.0f;
}

// What a layer reads: n_rows rows of n_in columns.
template <class Pointer>
struct Source {
  Pointer p;  // first row and column
  int stride;
};

template <class Pointer>
ACCEL_DEVICE inline Source<Pointer> source_of(const NetworkView& net, const LayerView& layer,
                                              Pointer inputs, Pointer made, int n_rows) {
  if (layer.source < 0) return {inputs + layer.begin, net.n_inputs};
  const LayerView& source = net.layers[layer.source];
  return {made + source.columns * n_rows + layer.begin, source.n_out};
}

// inputs (n_rows, n_inputs), made: all layers' outputs, outputs (n_rows, n_outputs)
template <class Block>
ACCEL_DEVICE inline void forward(Block& block, const NetworkView& net, const float* weights,
                                 const float* inputs, int n_rows, float* made, float* outputs) {
  for (int i = 0; i < net.n_layers; ++i) {
    const LayerView layer = net.layers[i];
    const auto x = source_of<const float*>(net, layer, inputs, made, n_rows);
    const float* bias = weights + layer.bias;
    float* y = made + layer.columns * n_rows;
    multiply(block, {x.p, x.stride, 1}, {weights + layer.weights, layer.n_out, 1},
             {n_rows, layer.n_out, layer.n_in}, [&](int row, int j, float sum) {
               const float value = activate(layer.activation, sum + bias[j]);
               y[int64_t(row) * layer.n_out + j] = value;
               if (layer.output >= 0)
                 outputs[int64_t(row) * net.n_outputs + layer.output + j] = value;
             });
    block.barrier();
  }
}

// Gradient by one layer's weights; d (n_rows, n_out) is the one by x W + b.
template <class Block>
ACCEL_DEVICE inline void weight_gradient(Block& block, const LayerView& layer,
                                         const Source<const float*>& x, const float* d, int n_rows,
                                         float* gradient) {
  float* by_weights = gradient + layer.weights;
  multiply(block, {x.p, 1, x.stride}, {d, layer.n_out, 1}, {layer.n_in, layer.n_out, n_rows},
           [&](int i, int j, float sum) { by_weights[int64_t(i) * layer.n_out + j] = sum; });
  parallel(block, layer.n_out, [&](int j) {
    float sum = 0.0f;
    for (int row = 0; row < n_rows; ++row) sum += d[int64_t(row) * layer.n_out + j];
    gradient[layer.bias + j] = sum;
  });
}

// After `forward`: gradient by the weights (null: not wanted) and by the inputs (null: not wanted)
// from the one by the outputs. d_made is as large as made.
template <class Block>
ACCEL_DEVICE inline void backward(Block& block, const NetworkView& net, const float* weights,
                                  const float* inputs, int n_rows, const float* made,
                                  const float* d_outputs, float* d_made, float* gradient,
                                  float* d_inputs) {
  parallel(block, int(net.n_columns) * n_rows, [&](int e) { d_made[e] = 0.0f; });
  if (d_inputs != nullptr)
    parallel(block, net.n_inputs * n_rows, [&](int e) { d_inputs[e] = 0.0f; });
  block.barrier();
  for (int i = net.n_layers - 1; i >= 0; --i) {
    const LayerView layer = net.layers[i];
    const float* y = made + layer.columns * n_rows;
    float* d = d_made + layer.columns * n_rows;
    parallel(block, layer.n_out * n_rows, [&](int e) {
      float sum = d[e];
      if (layer.output >= 0)
        sum += d_outputs[int64_t(e / layer.n_out) * net.n_outputs + layer.output + e % layer.n_out];
      d[e] = sum * derivative(layer.activation, y[e]);
    });
    block.barrier();
    if (gradient != nullptr)
      weight_gradient(block, layer, source_of<const float*>(net, layer, inputs, made, n_rows), d,
                      n_rows, gradient);
    if (layer.source >= 0 || d_inputs != nullptr) {
      const auto into = source_of<float*>(net, layer, d_inputs, d_made, n_rows);
      multiply(block, {d, layer.n_out, 1}, {weights + layer.weights, 1, layer.n_out},
               {n_rows, layer.n_in, layer.n_out}, [&](int row, int j, float sum) {
                 into.p[int64_t(row) * into.stride + j] += sum;
               });
    }
    block.barrier();
  }
}

}  // namespace portable
}  // namespace accel
