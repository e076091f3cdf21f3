#include "accel/packed_network.hpp"

#include <algorithm>
#include <cstring>

namespace accel {
namespace {

constexpr int64_t kStretch = 1 << 13;  // floats a thread takes at a time

}  // namespace

PackedNetwork::PackedNetwork(const Network& network, const Kernels& kernels, int first_input)
    : network_(network), kernels_(&kernels), first_input_(first_input) {
  const int width = kernels.panel_width;
  for (size_t l = 0; l < network.layers.size(); ++l) {
    const Layer& layer = network.layers[l];
    PackedLayer p{};
    p.narrow = layer.n_out < kNarrow;
    p.input_stride = round_up(layer.n_in, kLineFloats);
    p.weights = size_;
    p.bias = size_ + (p.narrow ? int64_t{layer.n_out} * p.input_stride
                               : int64_t{round_up(layer.n_out, width)} * layer.n_in);
    p.bias = (p.bias + kLineFloats - 1) / kLineFloats * kLineFloats;
    size_ = p.bias + round_up(layer.n_out, std::max(width, kLineFloats));
    const bool reads_wanted = first_input >= 0 && layer.begin + layer.n_in > first_input;
    const bool is_wanted = layer.source >= 0 || reads_wanted;
    p.transposed = -1;
    if (is_wanted && !p.narrow) {
      p.transposed = transposed_size_;
      transposed_size_ += int64_t{round_up(layer.n_in, width)} * layer.n_out;
    }
    layers_.push_back(p);
    add_stretches(int(l), p.weights, size_);
  }
}

// Whole panels, so that a thread can transpose what it has just changed.
void PackedNetwork::add_stretches(int l, int64_t begin, int64_t end) {
  const Layer& layer = network_.layers[size_t(l)];
  const PackedLayer& p = layers_[size_t(l)];
  const int64_t panel = int64_t{layer.n_in} * kernels_->panel_width;
  const int n_all = round_up(layer.n_out, kernels_->panel_width) / kernels_->panel_width;
  if (p.narrow || panel % kLineFloats != 0) {
    stretches_.push_back({begin, end - begin, l, 0, p.narrow ? 0 : n_all});
    return;
  }
  const int at_once = int(std::max<int64_t>(1, kStretch / panel));
  for (int first = 0; first < n_all; first += at_once) {
    const int n = std::min(at_once, n_all - first);
    // The bias goes with the last panels.
    const int64_t size = first + n == n_all ? end - begin - first * panel : n * panel;
    stretches_.push_back({begin + first * panel, size, l, first, n});
  }
}

// Calls function(flat position, packed position, step between packed neighbours, count) for stretches
// of a row of W, and for each bias.
template <class Function>
void PackedNetwork::for_each_row(Function function) const {
  const int width = kernels_->panel_width;
  for (size_t l = 0; l < layers_.size(); ++l) {
    const Layer& layer = network_.layers[l];
    const PackedLayer& p = layers_[l];
    for (int k = 0; k < layer.n_in; ++k) {
      const int64_t flat = network_.weight_offsets[l] + int64_t{k} * layer.n_out;
      if (p.narrow) {
        function(flat, p.weights + k, int64_t{p.input_stride}, layer.n_out);
        continue;
      }
      for (int j = 0; j < layer.n_out; j += width)
        function(flat + j, p.weights + (int64_t{j} * layer.n_in + int64_t{k} * width), int64_t{1},
                 std::min(width, layer.n_out - j));
    }
    function(network_.bias_offset(l), p.bias, int64_t{1}, layer.n_out);
  }
}

void PackedNetwork::pack(const float* flat, float* packed) const {
  for_each_row([&](int64_t from, int64_t to, int64_t step, int n) {
    for (int j = 0; j < n; ++j) packed[to + j * step] = flat[from + j];
  });
}

void PackedNetwork::unpack(const float* packed, float* flat) const {
  for_each_row([&](int64_t to, int64_t from, int64_t step, int n) {
    for (int j = 0; j < n; ++j) flat[to + j] = packed[from + j * step];
  });
}

void PackedNetwork::transpose(const Stretch& stretch, const float* packed,
                              float* transposed) const {
  const Layer& layer = network_.layers[size_t(stretch.layer)];
  const PackedLayer& p = layers_[size_t(stretch.layer)];
  if (p.transposed < 0) return;
  const int width = kernels_->panel_width;
  for (int panel = stretch.panel; panel < stretch.panel + stretch.n_panels; ++panel)
    kernels_->off_policy.transpose_panel(
        packed + p.weights + int64_t{panel} * layer.n_in * width, layer.n_in,
        std::min(width, layer.n_out - panel * width),
        transposed + p.transposed + int64_t{panel} * width * width, int64_t{layer.n_out} * width);
}

Path::Path(const Network& network, int outputs)
    : parts(network.layers.size(), Part{0, 0, false}), n_outputs(outputs) {
  for (size_t l = network.layers.size(); l-- > 0;) {
    const Layer& layer = network.layers[l];
    std::vector<int> n_readers(size_t(layer.n_out), 0);
    bool is_output = false;
    if (layer.output >= 0)
      for (int j = 0; j < layer.n_out && layer.output + j < outputs; ++j)
        ++n_readers[size_t(j)], is_output = true;
    for (size_t reader = l + 1; reader < network.layers.size(); ++reader) {
      const Layer& r = network.layers[reader];
      if (r.source != int(l) || parts[reader].end == 0) continue;
      for (int j = 0; j < r.n_in; ++j) ++n_readers[size_t(r.begin + j)];
    }
    const auto is_read = [](int n) { return n > 0; };
    const auto first = std::find_if(n_readers.begin(), n_readers.end(), is_read);
    if (first == n_readers.end()) continue;
    const auto last = std::find_if(n_readers.rbegin(), n_readers.rend(), is_read).base();
    const bool once = std::all_of(first, last, [](int n) { return n == 1; });
    parts[l] = {int(first - n_readers.begin()), int(last - n_readers.begin()), once && !is_output};
  }
}

NetworkPass::NetworkPass(const PackedNetwork& network, int max_rows)
    : network_(&network), kernels_(&network.kernels()) {
  for (const Layer& layer : network.network().layers) {
    Block block{};
    block.stride = odd_stride(round_up(layer.n_out, kernels_->lanes));
    block.output.resize(size_t(max_rows * block.stride));
    block.d.resize(size_t(max_rows * block.stride));
    blocks_.push_back(std::move(block));
  }
  if (network.first_input() < 0) return;
  d_input_stride_ = odd_stride(network.network().n_inputs);
  d_input_.resize(size_t(max_rows * d_input_stride_));
}

Rows NetworkPass::source(size_t l, const Rows& input) const {
  const Layer& layer = network_->network().layers[l];
  if (layer.source < 0) return {input.data + layer.begin, input.stride, input.n};
  const Block& block = blocks_[size_t(layer.source)];
  return {block.output.data() + layer.begin, block.stride, input.n};
}

void NetworkPass::forward(const Path& path, const float* weights, const Rows& input) {
  for (size_t l = 0; l < blocks_.size(); ++l)
    if (path.parts[l].end > 0) forward_layer(l, path.parts[l], weights, input);
}

void NetworkPass::forward_layer(size_t l, const Path::Part& part, const float* weights,
                                const Rows& input) {
  const Layer& layer = network_->network().layers[l];
  const PackedLayer& p = network_->layer(l);
  Block& block = blocks_[l];
  const Rows x = source(l, input);
  const int width = kernels_->panel_width;
  if (p.narrow) {
    kernels_->narrow_forward({x.n, layer.n_in, layer.n_out, x.data, x.stride, weights + p.weights,
                              p.input_stride, weights + p.bias, block.output.data(), block.stride});
    return kernels_->activate(int(layer.activation), block.output.data(), block.stride, x.n,
                              layer.n_out);
  }
  const int begin = part.begin / width * width;  // whole panels
  float* c = block.output.data() + begin;
  Gemm g{};
  g.n_rows = x.n, g.n_columns = part.end - begin, g.n_depth = layer.n_in;
  g.a = x.data, g.a_row_stride = x.stride, g.a_depth_stride = 1;
  g.b = weights + p.weights + int64_t{begin} * layer.n_in, g.b_depth_stride = width;
  g.b_panel_stride = int64_t{layer.n_in} * width, g.b_packed = true;
  g.c = c, g.c_stride = block.stride, g.c_padded = true;
  g.start = Start::bias, g.bias = weights + p.bias + begin;
  g.rectify = layer.activation == Activation::relu;
  kernels_->gemm(g);
  if (!g.rectify)
    kernels_->activate(int(layer.activation), c, block.stride, x.n, g.n_columns);
}

void NetworkPass::read_outputs(const Path& path, int n_rows, float* columns, int stride) const {
  for (size_t l = 0; l < blocks_.size(); ++l) {
    const Layer& layer = network_->network().layers[l];
    if (layer.output < 0) continue;
    for (int j = 0; j < layer.n_out && layer.output + j < path.n_outputs; ++j) {
      const float* from = blocks_[l].output.data() + j;
      float* to = columns + int64_t{layer.output + j} * stride;
      for (int row = 0; row < n_rows; ++row) to[row] = from[row * blocks_[l].stride];
    }
  }
}

void NetworkPass::backward(const Path& path, const float* weights, const float* transposed,
                           const Rows& input, const float* columns, int stride, float* gradient,
                           bool accumulate) {
  const Network& network = network_->network();
  for (size_t l = 0; l < blocks_.size(); ++l)
    if (path.parts[l].end > 0) start_gradient(l, path, columns, stride, input.n);
  if (d_input_stride_ > 0)
    std::memset(d_input_.data(), 0, size_t(input.n * d_input_stride_) * sizeof(float));
  for (size_t l = blocks_.size(); l-- > 0;) {
    const Path::Part& part = path.parts[l];
    if (part.end == 0) continue;
    Block& block = blocks_[l];
    if (!part.single_reader)  // else its reader did it on the way
      kernels_->differentiate(int(network.layers[l].activation), block.output.data() + part.begin,
                              block.d.data() + part.begin, block.stride, input.n,
                              part.end - part.begin);
    if (gradient != nullptr) weight_gradient(l, part, input, gradient, accumulate);
    if (network.layers[l].source >= 0)
      source_gradient(l, path, weights, transposed, input.n);
    else if (gradient == nullptr && d_input_stride_ > 0)
      input_gradient(l, path, weights, transposed, input.n);
  }
}

// The gradient by a layer's output starts from the loss's share, or zero where readers add to it.
void NetworkPass::start_gradient(size_t l, const Path& path, const float* columns, int stride,
                                 int n_rows) {
  const Layer& layer = network_->network().layers[l];
  const Path::Part& part = path.parts[l];
  Block& block = blocks_[l];
  if (part.single_reader) return;
  for (int j = part.begin; j < part.end; ++j) {
    float* to = block.d.data() + j;
    if (layer.output >= 0 && layer.output + j < path.n_outputs) {
      const float* from = columns + int64_t{layer.output + j} * stride;
      for (int row = 0; row < n_rows; ++row) to[row * block.stride] = from[row];
    } else {
      for (int row = 0; row < n_rows; ++row) to[row * block.stride] = 0.0f;
    }
  }
}

// dW = x^T d, db = sum of d
void NetworkPass::weight_gradient(size_t l, const Path::Part& part, const Rows& input,
                                  float* gradient, bool accumulate) {
  const Layer& layer = network_->network().layers[l];
  const PackedLayer& p = network_->layer(l);
  const Block& block = blocks_[l];
  const Rows x = source(l, input);
  const int width = kernels_->panel_width;
  kernels_->sum_rows(block.d.data() + part.begin, block.stride, x.n, part.end - part.begin,
                     gradient + p.bias + part.begin, accumulate);
  Gemm g{};
  g.n_depth = x.n;
  g.start = accumulate ? Start::accumulate : Start::zero;
  if (p.narrow) {  // dW^T = d^T x, so that the vectors lie along the inputs
    g.n_rows = part.end - part.begin, g.n_columns = layer.n_in;
    g.a = block.d.data() + part.begin, g.a_row_stride = 1, g.a_depth_stride = block.stride;
    g.b = x.data, g.b_depth_stride = x.stride;
    g.c = gradient + p.weights + int64_t{part.begin} * p.input_stride, g.c_stride = p.input_stride;
    return kernels_->gemm(g);
  }
  const int begin = part.begin / width * width;
  g.n_rows = layer.n_in, g.n_columns = part.end - begin;
  g.a = x.data, g.a_row_stride = 1, g.a_depth_stride = x.stride;
  g.b = block.d.data() + begin, g.b_depth_stride = block.stride;
  g.c = gradient + p.weights + int64_t{begin} * layer.n_in, g.c_stride = width;
  g.c_panel_stride = int64_t{layer.n_in} * width;
  kernels_->gemm(g);
}

// d W^T from column `first_column` of W^T on
Gemm NetworkPass::backward_product(size_t l, const Path::Part& part, const float* weights,
                                   const float* transposed, int first_column, int n_rows) const {
  const Layer& layer = network_->network().layers[l];
  const PackedLayer& p = network_->layer(l);
  const Block& block = blocks_[l];
  const int width = kernels_->panel_width;
  Gemm g{};
  g.n_rows = n_rows, g.n_columns = layer.n_in - first_column, g.n_depth = part.end - part.begin;
  g.a = block.d.data() + part.begin, g.a_row_stride = block.stride, g.a_depth_stride = 1;
  if (p.narrow) {  // (n_out, n_in) is W^T already
    g.b = weights + p.weights + int64_t{part.begin} * p.input_stride + first_column;
    g.b_depth_stride = p.input_stride;
  } else {
    g.b = transposed + p.transposed + int64_t{first_column} * layer.n_out +
          int64_t{part.begin} * width;
    g.b_depth_stride = width, g.b_panel_stride = int64_t{layer.n_out} * width, g.b_packed = true;
  }
  return g;
}

void NetworkPass::source_gradient(size_t l, const Path& path, const float* weights,
                                  const float* transposed, int n_rows) {
  const Network& network = network_->network();
  const Layer& layer = network.layers[l];
  const Layer& from = network.layers[size_t(layer.source)];
  const Path::Part& reached = path.parts[size_t(layer.source)];
  Block& to = blocks_[size_t(layer.source)];
  Gemm g = backward_product(l, path.parts[l], weights, transposed, 0, n_rows);
  g.c = to.d.data() + layer.begin, g.c_stride = to.stride;
  // Beyond the last column lies padding only if nobody else's columns follow, and only up to the
  // row's end.
  g.c_padded = layer.begin + layer.n_in == from.n_out &&
               layer.begin + round_up(layer.n_in, kernels_->lanes) <= to.stride;
  g.start = reached.single_reader ? Start::zero : Start::accumulate;
  if (reached.single_reader && from.activation != Activation::identity) {
    g.y = to.output.data() + layer.begin, g.y_stride = to.stride;
    g.activation = int(from.activation);
  }
  kernels_->gemm(g);
}

void NetworkPass::input_gradient(size_t l, const Path& path, const float* weights,
                                 const float* transposed, int n_rows) {
  const Layer& layer = network_->network().layers[l];
  const int wanted = std::max(network_->first_input() - layer.begin, 0);
  if (wanted >= layer.n_in) return;
  const int width = kernels_->panel_width;
  const int first_column = wanted / width * width;
  Gemm g = backward_product(l, path.parts[l], weights, transposed, first_column, n_rows);
  g.c = d_input_.data() + layer.begin + first_column, g.c_stride = d_input_stride_;
  g.start = Start::accumulate;
  kernels_->gemm(g);
}

void NetworkPass::read_input_gradient(int n_rows, int begin, int n, float* columns,
                                      int stride) const {
  for (int j = 0; j < n; ++j)
    for (int row = 0; row < n_rows; ++row)
      columns[int64_t{j} * stride + row] = d_input_[size_t(row * d_input_stride_ + begin + j)];
}

}  // namespace accel
