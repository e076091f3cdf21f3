// Codes of the activations in a layer table.
#pragma once

namespace accel {

enum class Activation : int { identity = 0, relu = 1, tanh = 2, sigmoid = 3 };
constexpr int kActivations = 4;

}  // namespace accel
