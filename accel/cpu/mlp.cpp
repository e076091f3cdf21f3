#include "accel/mlp.hpp"

#include <algorithm>
#include <cstring>

namespace accel {
namespace {

constexpr int kBlockRows = 60;

}  // namespace

Mlp::Mlp(const Network& network, const Kernels& kernels, std::vector<bool> deferred)
    : network_(network),
      kernels_(&kernels),
      max_rows_(kBlockRows),
      input_stride_(odd_stride(network.n_inputs)),
      input_(static_cast<size_t>(kBlockRows * input_stride_)),
      set_stride_(odd_stride(int(network.n_weights))),
      gradients_(static_cast<size_t>(kMaxSets * set_stride_)) {
  deferred.resize(network.layers.size(), false);
  const int width = kernels.panel_width;
  int largest = 0;
  for (size_t l = 0; l < network.layers.size(); ++l) {
    const Layer& layer = network.layers[l];
    Block block{};
    block.stride = odd_stride(layer.n_out);
    block.output.resize(static_cast<size_t>(max_rows_ * block.stride));
    block.d.resize(static_cast<size_t>(max_rows_ * block.stride));
    block.narrow = layer.n_out < kNarrow;
    block.activation = deferred[l] ? Activation::identity : layer.activation;
    const int columns = block.narrow ? round_up(layer.n_in, kLineFloats) : round_up(layer.n_out, width);
    block.weights.resize(size_t(columns) * size_t(block.narrow ? layer.n_out : layer.n_in));
    block.transposed.resize(size_t(round_up(layer.n_in, width)) * size_t(layer.n_out));
    block.bias.resize(size_t(round_up(layer.n_out, width)));
    largest = std::max(largest, round_up(layer.n_in, kLineFloats));
    blocks_.push_back(std::move(block));
  }
  narrow_.resize(size_t(largest) * kNarrow);
  find_single_readers();
}

void Mlp::find_single_readers() {
  for (size_t l = 0; l < blocks_.size(); ++l) {
    std::vector<int> readers(size_t(network_.layers[l].n_out), 0);
    for (const Layer& reader : network_.layers)
      if (reader.source == int(l))
        for (int j = 0; j < reader.n_in; ++j) ++readers[size_t(reader.begin + j)];
    const bool once = std::all_of(readers.begin(), readers.end(), [](int n) { return n == 1; });
    blocks_[l].single_reader = once && network_.layers[l].output < 0;
  }
}

// Columns of a matrix given by strides, `width` at a time: (panel, n_rows, width).
static void pack_panels(const float* from, int64_t row_stride, int64_t column_stride, int n_rows,
                        int n_columns, int width, float* to) {
  for (int column = 0; column < n_columns; column += width, to += int64_t{n_rows} * width) {
    const int n = std::min(width, n_columns - column);
    for (int row = 0; row < n_rows; ++row)
      for (int j = 0; j < n; ++j)
        to[int64_t{row} * width + j] = from[row * row_stride + (column + j) * column_stride];
  }
}

void Mlp::pack(const float* weights, bool for_backward) {
  for (size_t l = 0; l < blocks_.size(); ++l) pack_layer(l, weights, for_backward);
}

void Mlp::pack_layer(size_t l, const float* weights, bool for_backward) {
  const Layer& layer = network_.layers[l];
  Block& block = blocks_[l];
  const float* w = weights + network_.weight_offsets[l];
  const int width = kernels_->panel_width;
  std::memcpy(block.bias.data(), weights + network_.bias_offset(l), size_t(layer.n_out) * 4);
  if (block.narrow) {
    const int64_t stride = round_up(layer.n_in, kLineFloats);
    for (int j = 0; j < layer.n_out; ++j)
      for (int k = 0; k < layer.n_in; ++k)
        block.weights[size_t(j * stride + k)] = w[int64_t{k} * layer.n_out + j];
  } else {
    pack_panels(w, layer.n_out, 1, layer.n_in, layer.n_out, width, block.weights.data());
  }
  if (for_backward && layer.source >= 0)
    pack_panels(w, 1, layer.n_out, layer.n_out, layer.n_in, width, block.transposed.data());
}

void Mlp::set_input(int row, const float* values) {
  std::memcpy(input_.data() + row * input_stride_, values, size_t(network_.n_inputs) * 4);
}

const float* Mlp::source(size_t l, int64_t* stride) const {
  const Layer& layer = network_.layers[l];
  if (layer.source < 0) {
    *stride = input_stride_;
    return input_.data() + layer.begin;
  }
  const Block& block = blocks_[size_t(layer.source)];
  *stride = block.stride;
  return block.output.data() + layer.begin;
}

void Mlp::forward(int n_rows) {
  for (size_t l = 0; l < blocks_.size(); ++l) forward_layer(l, n_rows);
}

void Mlp::forward_layer(size_t l, int n_rows) {
  const Layer& layer = network_.layers[l];
  Block& block = blocks_[l];
  int64_t stride;
  const float* x = source(l, &stride);
  if (block.narrow) {
    kernels_->narrow_forward({n_rows, layer.n_in, layer.n_out, x, stride, block.weights.data(),
                              round_up(layer.n_in, kLineFloats), block.bias.data(), block.output.data(),
                              block.stride});
  } else {
    Gemm g{};
    g.n_rows = n_rows, g.n_columns = layer.n_out, g.n_depth = layer.n_in;
    g.a = x, g.a_row_stride = stride, g.a_depth_stride = 1;
    g.b = block.weights.data(), g.b_depth_stride = kernels_->panel_width;
    g.b_panel_stride = int64_t{layer.n_in} * kernels_->panel_width, g.b_packed = true;
    g.c = block.output.data(), g.c_stride = block.stride, g.c_padded = true;
    g.start = Start::bias, g.bias = block.bias.data();
    kernels_->gemm(g);
  }
  kernels_->activate(int(block.activation), block.output.data(), block.stride, n_rows, layer.n_out);
}

void Mlp::infer(const float* inputs, int64_t n_rows, float* outputs) {
  for (int64_t row = 0; row < n_rows; row += max_rows_) {
    const int n = int(std::min<int64_t>(n_rows - row, max_rows_));
    for (int i = 0; i < n; ++i) set_input(i, inputs + (row + i) * network_.n_inputs);
    forward(n);
    for (size_t l = 0; l < blocks_.size(); ++l) {
      const Layer& layer = network_.layers[l];
      if (layer.output < 0) continue;
      for (int i = 0; i < n; ++i)
        std::memcpy(outputs + (row + i) * network_.n_outputs + layer.output,
                    blocks_[l].output.data() + i * blocks_[l].stride, size_t(layer.n_out) * 4);
    }
  }
}

void Mlp::read_outputs(int n_rows, float* columns, int stride) const {
  for (size_t l = 0; l < blocks_.size(); ++l) {
    const Layer& layer = network_.layers[l];
    if (layer.output < 0) continue;
    const Block& block = blocks_[l];
    for (int j = 0; j < layer.n_out; ++j)
      for (int row = 0; row < n_rows; ++row)
        columns[int64_t{layer.output + j} * stride + row] =
            block.output[size_t(row * block.stride + j)];
  }
}

void Mlp::backward(int n_rows, const float* columns, int stride, const Segment* segments,
                   int n_segments) {
  for (size_t l = 0; l < blocks_.size(); ++l) prepare_gradient(l, n_rows, columns, stride);
  for (size_t l = blocks_.size(); l-- > 0;) {
    Block& block = blocks_[l];
    if (!block.single_reader)  // else its reader did it on the way
      kernels_->differentiate(int(block.activation), block.output.data(), block.d.data(),
                              block.stride, n_rows, network_.layers[l].n_out);
    for (int i = 0; i < n_segments; ++i) weight_gradient(l, segments[i]);
    if (network_.layers[l].source >= 0) source_gradient(l, n_rows);
  }
}

// The gradient by a layer's output starts from the loss's share, or zero where readers add to it.
void Mlp::prepare_gradient(size_t l, int n_rows, const float* columns, int stride) {
  const Layer& layer = network_.layers[l];
  Block& block = blocks_[l];
  if (layer.output >= 0) {
    for (int j = 0; j < layer.n_out; ++j)
      for (int row = 0; row < n_rows; ++row)
        block.d[size_t(row * block.stride + j)] = columns[int64_t{layer.output + j} * stride + row];
  } else if (!block.single_reader) {
    std::memset(block.d.data(), 0, size_t(n_rows * block.stride) * 4);
  }
}

// dW = x^T d, db = sum of d
void Mlp::weight_gradient(size_t l, const Segment& segment) {
  const Layer& layer = network_.layers[l];
  const Block& block = blocks_[l];
  float* gradient = gradients_.data() + segment.set * set_stride_;
  const float* d = block.d.data() + segment.row * block.stride;
  kernels_->sum_rows(d, block.stride, segment.n_rows, layer.n_out,
                     gradient + network_.bias_offset(l), !segment.first);
  float* dw = gradient + network_.weight_offsets[l];
  if (block.narrow) return narrow_weight_gradient(l, segment, dw);
  Gemm g{};
  g.n_rows = layer.n_in, g.n_columns = layer.n_out, g.n_depth = segment.n_rows;
  g.a = source(l, &g.a_depth_stride), g.a_row_stride = 1;
  g.a += segment.row * g.a_depth_stride;
  g.b = d, g.b_depth_stride = block.stride;
  g.c = dw, g.c_stride = layer.n_out;
  g.start = segment.first ? Start::zero : Start::accumulate;
  kernels_->gemm(g);
}

// Few outputs: dW^T = d^T x, so that the vectors lie along the inputs.
void Mlp::narrow_weight_gradient(size_t l, const Segment& segment, float* dw) {
  const Layer& layer = network_.layers[l];
  const Block& block = blocks_[l];
  const int64_t stride = round_up(layer.n_in, kLineFloats);
  if (!segment.first)
    for (int j = 0; j < layer.n_out; ++j)
      for (int k = 0; k < layer.n_in; ++k)
        narrow_[size_t(j * stride + k)] = dw[int64_t{k} * layer.n_out + j];
  Gemm g{};
  g.n_rows = layer.n_out, g.n_columns = layer.n_in, g.n_depth = segment.n_rows;
  g.a = block.d.data() + segment.row * block.stride;
  g.a_row_stride = 1, g.a_depth_stride = block.stride;
  g.b = source(l, &g.b_depth_stride);
  g.b += segment.row * g.b_depth_stride;
  g.c = narrow_.data(), g.c_stride = stride, g.c_padded = true;
  g.start = segment.first ? Start::zero : Start::accumulate;
  kernels_->gemm(g);
  for (int j = 0; j < layer.n_out; ++j)
    for (int k = 0; k < layer.n_in; ++k)
      dw[int64_t{k} * layer.n_out + j] = narrow_[size_t(j * stride + k)];
}

// dx = d W^T
void Mlp::source_gradient(size_t l, int n_rows) {
  const Layer& layer = network_.layers[l];
  const Block& block = blocks_[l];
  Block& to = blocks_[size_t(layer.source)];
  const int width = kernels_->panel_width;
  Gemm g{};
  g.n_rows = n_rows, g.n_columns = layer.n_in, g.n_depth = layer.n_out;
  g.a = block.d.data(), g.a_row_stride = block.stride, g.a_depth_stride = 1;
  g.b = block.transposed.data(), g.b_depth_stride = width;
  g.b_panel_stride = int64_t{layer.n_out} * width, g.b_packed = true;
  g.c = to.d.data() + layer.begin, g.c_stride = to.stride;
  // Beyond the last column lies padding only if nobody else's columns follow, and only up to the
  // row's end.
  g.c_padded = layer.begin + layer.n_in == network_.layers[size_t(layer.source)].n_out &&
               layer.begin + round_up(layer.n_in, kernels_->lanes) <= to.stride;
  if (to.single_reader) {
    g.start = Start::zero;
    g.y = to.output.data() + layer.begin, g.y_stride = to.stride;
    g.activation = int(to.activation);
  } else {
    g.start = Start::accumulate;
  }
  kernels_->gemm(g);
}

}  // namespace accel
