#include "accel/layers.hpp"

#include <stdexcept>
#include <string>

namespace accel {
namespace {

using std::to_string;

class Check {
 public:
  Check(const char* field, int64_t layer) : where_(field + ("[" + to_string(layer) + "]")) {}

  void within(const char* column, int64_t value, int64_t low, int64_t high) const {
    if (value < low || value > high)
      fail(std::string(column) + " must be " + to_string(low) + " to " + to_string(high) +
           ", got " + to_string(value));
  }
  [[noreturn]] void fail(const std::string& text) const {
    throw std::invalid_argument(where_ + ": " + text);
  }

 private:
  std::string where_;
};

Layer read_layer(const int32_t* row, const Check& check, int64_t index) {
  check.within("source", row[0], -1, index - 1);
  check.within("begin", row[1], 0, kMaxWidth);
  check.within("n_in", row[2], 1, kMaxWidth);
  check.within("n_out", row[3], 1, kMaxWidth);
  check.within("activation", row[4], 0, kActivations - 1);
  check.within("output", row[5], -1, kMaxWidth);
  return {row[0], row[1], row[2], row[3], static_cast<Activation>(row[4]), row[5]};
}

// Output columns must be made once each, without a gap.
void check_outputs(const Network& network, const char* field) {
  std::vector<int> made(static_cast<size_t>(network.n_outputs), 0);
  for (const Layer& layer : network.layers)
    if (layer.output >= 0)
      for (int j = 0; j < layer.n_out; ++j) ++made[static_cast<size_t>(layer.output + j)];
  for (size_t column = 0; column < made.size(); ++column)
    if (made[column] != 1)
      throw std::invalid_argument(
          std::string(field) + ": every output column must come from one layer, column " +
          to_string(column) + " comes from " + to_string(made[column]));
  if (network.n_outputs == 0)
    throw std::invalid_argument(std::string(field) +
                                ": at least one layer must have output >= 0, got -1 everywhere");
}

}  // namespace

Network make_network(const int32_t* table, int64_t n_layers, const char* field) {
  if (n_layers < 1)
    throw std::invalid_argument(std::string(field) + " must have at least one layer, got 0");
  Network network;
  for (int64_t i = 0; i < n_layers; ++i) {
    const Check check(field, i);
    const Layer layer = read_layer(table + i * kLayerColumns, check, i);
    const int end = layer.begin + layer.n_in;
    if (layer.source < 0) {
      network.n_inputs = end > network.n_inputs ? end : network.n_inputs;
    } else if (end > network.layers[static_cast<size_t>(layer.source)].n_out) {
      const int width = network.layers[static_cast<size_t>(layer.source)].n_out;
      check.fail("begin + n_in must be at most the source's n_out = " + to_string(width) +
                 ", got " + to_string(end));
    }
    network.layers.push_back(layer);
    network.weight_offsets.push_back(network.n_weights);
    network.n_weights += (int64_t{layer.n_in} + 1) * layer.n_out;
    if (layer.output >= 0 && layer.output + layer.n_out > network.n_outputs)
      network.n_outputs = layer.output + layer.n_out;
  }
  check_outputs(network, field);
  return network;
}

}  // namespace accel
