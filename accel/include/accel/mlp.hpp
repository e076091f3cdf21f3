// Forward and backward pass of a tree of dense layers over a block of rows that stays in cache.
#pragma once

#include <vector>

#include "accel/aligned.hpp"
#include "accel/kernels.hpp"
#include "accel/layers.hpp"

namespace accel {

// Rows of a block that belong together: their gradient by the weights goes to one set.
struct Segment {
  int row, n_rows;
  int set;
  bool first;  // sets the gradient instead of adding to it
};

class Mlp {
 public:
  // `deferred[l]`: the loss takes layer l's output before its activation and gives back the gradient
  // by it. Empty: none.
  Mlp(const Network& network, const Kernels& kernels, std::vector<bool> deferred = {});

  int max_rows() const { return max_rows_; }
  const Network& network() const { return network_; }

  // Copies flat weights into the order in which the kernels read them.
  void pack(const float* weights, bool for_backward);

  // Copies a row of the network's input.
  void set_input(int row, const float* values);
  void forward(int n_rows);
  // Any number of rows: inputs (n_rows, n_inputs) to outputs (n_rows, n_outputs).
  void infer(const float* inputs, int64_t n_rows, float* outputs);
  // Output columns of the block, columns (n_outputs, stride).
  void read_outputs(int n_rows, float* columns, int stride) const;

  // Takes the gradient of the loss by the outputs (n_outputs, stride); the segments share out the
  // block's rows among the sets of gradients by the weights.
  void backward(int n_rows, const float* columns, int stride, const Segment* segments,
                int n_segments);
  const float* gradient() const { return gradients_.data(); }
  int64_t set_stride() const { return set_stride_; }

 private:
  struct Block {  // what a layer needs beside its row of the table
    int64_t stride;          // of its rows
    Aligned<float> output;   // (max_rows, stride)
    Aligned<float> d;        // gradient by it, (max_rows, stride)
    Aligned<float> weights;  // packed; narrow: (n_out, n_in padded)
    Aligned<float> transposed;
    Aligned<float> bias;
    Activation activation;   // identity where the loss sees to it
    bool narrow;
    bool single_reader;      // every column of d is written by exactly one reader
  };

  void pack_layer(size_t l, const float* weights, bool for_backward);
  void find_single_readers();
  const float* source(size_t l, int64_t* stride) const;
  void forward_layer(size_t l, int n_rows);
  void prepare_gradient(size_t l, int n_rows, const float* columns, int stride);
  void weight_gradient(size_t l, const Segment& segment);
  void narrow_weight_gradient(size_t l, const Segment& segment, float* dw);
  void source_gradient(size_t l, int n_rows);

  Network network_;
  const Kernels* kernels_;
  int max_rows_;
  int64_t input_stride_;
  Aligned<float> input_;  // (max_rows, input_stride)
  std::vector<Block> blocks_;
  int64_t set_stride_;
  Aligned<float> gradients_;  // (kMaxSets, set_stride), in the flat order
  Aligned<float> narrow_;    // gradient of one narrow layer, transposed
};

}  // namespace accel
