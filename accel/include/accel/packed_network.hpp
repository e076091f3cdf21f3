// A network's weights in the order in which the kernels read them, and its passes over a block of
// rows. Weights and what a pass needs are apart, so that several threads can share the weights.
#pragma once

#include <vector>

#include "accel/aligned.hpp"
#include "accel/kernels.hpp"
#include "accel/layers.hpp"

namespace accel {

// Where a layer's numbers lie in the packed weights. Wide layers: panels of `panel_width` columns,
// (n_panels, n_in, panel_width); narrow ones: (n_out, n_in padded). The bias follows, padded.
struct PackedLayer {
  int64_t weights, bias;
  int64_t transposed;  // in the transposed weights (panels of columns of W^T); -1: not needed
  int input_stride;    // n_in padded
  bool narrow;
};

// A stretch of packed weights that one thread updates: some panels of a layer, or all of a narrow one.
struct Stretch {
  int64_t begin, size;
  int layer, panel, n_panels;  // n_panels 0: nothing to transpose
};

class PackedNetwork {
 public:
  // `first_input`: the first column of the input by which a gradient is asked for; -1: none.
  PackedNetwork(const Network& network, const Kernels& kernels, int first_input);

  const Network& network() const { return network_; }
  const Kernels& kernels() const { return *kernels_; }
  const PackedLayer& layer(size_t l) const { return layers_[l]; }
  const std::vector<Stretch>& stretches() const { return stretches_; }
  int first_input() const { return first_input_; }
  int64_t size() const { return size_; }  // a multiple of 16
  int64_t transposed_size() const { return transposed_size_; }

  // Padding is left as it is.
  void pack(const float* flat, float* packed) const;
  void unpack(const float* packed, float* flat) const;
  void transpose(const Stretch& stretch, const float* packed, float* transposed) const;

 private:
  void add_stretches(int layer, int64_t begin, int64_t end);
  template <class Function>
  void for_each_row(Function function) const;

  Network network_;
  const Kernels* kernels_;
  int first_input_;
  std::vector<PackedLayer> layers_;
  std::vector<Stretch> stretches_;
  int64_t size_ = 0, transposed_size_ = 0;
};

// The part of a network that some of its outputs come from: columns [begin, end) of each layer.
struct Path {
  struct Part {
    int begin, end;      // empty: the layer is not on the path
    bool single_reader;  // every column is read exactly once, and is no output
  };
  std::vector<Part> parts;
  int n_outputs;

  // Of the first `n_outputs` output columns.
  Path(const Network& network, int n_outputs);
};

struct Rows {
  const float* data;  // (n, stride)
  int64_t stride;
  int n;
};

class NetworkPass {
 public:
  NetworkPass(const PackedNetwork& network, int max_rows);

  void forward(const Path& path, const float* weights, const Rows& input);
  // Output columns of the path, columns (n_outputs, stride).
  void read_outputs(const Path& path, int n_rows, float* columns, int stride) const;

  // After `forward`: takes the gradient by the outputs (n_outputs, stride). Gives that by the weights,
  // packed, unless `gradient` is null; `accumulate` adds it. Gives that by the input from the column
  // `first_input` on where the network was made for it.
  void backward(const Path& path, const float* weights, const float* transposed, const Rows& input,
                const float* columns, int stride, float* gradient, bool accumulate);
  // The gradient by input columns [begin, begin + n), columns (n, stride).
  void read_input_gradient(int n_rows, int begin, int n, float* columns, int stride) const;

 private:
  struct Block {
    int64_t stride;
    Aligned<float> output, d;  // (max_rows, stride)
  };
  void forward_layer(size_t l, const Path::Part& part, const float* weights, const Rows& input);
  Rows source(size_t l, const Rows& input) const;
  void start_gradient(size_t l, const Path& path, const float* columns, int stride, int n_rows);
  void weight_gradient(size_t l, const Path::Part& part, const Rows& input, float* gradient,
                       bool accumulate);
  void source_gradient(size_t l, const Path& path, const float* weights, const float* transposed,
                       int n_rows);
  void input_gradient(size_t l, const Path& path, const float* weights, const float* transposed,
                      int n_rows);
  Gemm backward_product(size_t l, const Path::Part& part, const float* weights,
                        const float* transposed, int first_column, int n_rows) const;

  const PackedNetwork* network_;
  const Kernels* kernels_;
  std::vector<Block> blocks_;
  int64_t d_input_stride_ = 0;
  Aligned<float> d_input_;  // (max_rows, stride)
};

}  // namespace accel
