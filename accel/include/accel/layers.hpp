// The layer table: how a tree of dense layers and its flat weights are described (see accel/__init__.py
// for the picture). Plain data, shared by every backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "accel/activation.hpp"

namespace accel {

// y = activation(x W + b), x: columns [begin, begin + n_in) of the source's output.
struct Layer {
  int source;             // layer whose output is read, -1: the network's input
  int begin;              // first column read there
  int n_in;               // number of columns read
  int n_out;              // number of columns made
  Activation activation;  // of this layer's output
  int output;             // first column in the network's output row, -1: hidden
};

struct Network {
  std::vector<Layer> layers;
  std::vector<int64_t> weight_offsets;  // of W (n_in, n_out) in the flat weights; b follows it
  int n_inputs = 0;                     // columns of the network's input
  int n_outputs = 0;                    // columns of the network's output row
  int64_t n_weights = 0;

  int64_t bias_offset(std::size_t layer) const {
    return weight_offsets[layer] + int64_t{layers[layer].n_in} * layers[layer].n_out;
  }
};

constexpr int kLayerColumns = 6;
constexpr int kMaxWidth = 1 << 14;

// Checks a table (n_layers, 6) and derives sizes and offsets. Throws std::invalid_argument naming
// `field`, the rule and the value.
Network make_network(const int32_t* table, int64_t n_layers, const char* field);

}  // namespace accel
