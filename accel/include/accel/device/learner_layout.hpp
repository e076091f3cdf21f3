// How the host describes a learner's networks and batches to the device.
#pragma once

#include <limits>
#include <vector>

#include "accel/device/learner.hpp"

namespace accel {
namespace device {

// A network's layers; fills all of the view but where they lie.
inline std::vector<portable::LayerView> describe(const Network& network,
                                                 portable::NetworkView& view) {
  view = {nullptr, int(network.layers.size()), network.n_inputs, network.n_outputs, 0,
          network.n_weights};
  std::vector<portable::LayerView> layers;
  for (size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    layers.push_back({layer.source, layer.begin, layer.n_in, layer.n_out, int(layer.activation),
                      layer.output, network.weight_offsets[i], network.bias_offset(i),
                      view.n_columns});
    view.n_columns += layer.n_out;
  }
  return layers;
}

// Bytes of the mirror: the batch, where it lies, what the step measures.
struct BatchLayout {
  int64_t n_action_columns = 0;
  size_t observations = 0, actions = 0, rewards = 0, next_observations = 0, discounts = 0,
         weights = 0, place = 0, outcome = 0, td_errors = 0, end = 0;

  BatchLayout() = default;
  BatchLayout(const portable::LearnerView& view, int64_t n_rows)
      : n_action_columns(view.has_actor() ? view.n_actions : 1) {
    const size_t column = sizeof(float) * size_t(n_rows);
    observations = take(column * size_t(view.n_observations));
    actions = take(column * size_t(n_action_columns));
    rewards = take(column);
    next_observations = take(column * size_t(view.n_observations));
    discounts = take(column);
    weights = take(column);
    place = take(sizeof(portable::BatchPlace));
    outcome = take(sizeof(portable::Outcome));
    td_errors = take(column);
  }

 private:
  size_t take(size_t n_bytes) {
    const size_t begin = end;
    end = (end + n_bytes + 15) / 16 * 16;
    return begin;
  }
};

// What a step begins with.
inline portable::Outcome unmeasured() {
  portable::Outcome o{};
  for (float* value : {&o.critic_loss, &o.mean_value, &o.actor_loss, &o.entropy, &o.temperature,
                       &o.norms[0], &o.norms[1], &o.norms[2]})
    *value = std::numeric_limits<float>::quiet_NaN();
  return o;
}

}  // namespace device
}  // namespace accel
