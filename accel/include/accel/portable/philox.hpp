// Normal numbers that are a function of seed, step, row and dimension alone: Philox4x32-10 (Salmon
// et al., SC 2011) and Box-Muller, as accel.reference.philox.
#pragma once

#include "accel/portable/target.hpp"

namespace accel {
namespace portable {

constexpr uint32_t kNextActions = 0, kPresentActions = 1;  // streams

struct Words {
  uint32_t word[4];
};

ACCEL_DEVICE inline Words philox(uint64_t seed, Words counter) {
  uint32_t key[2] = {uint32_t(seed), uint32_t(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t(counter.word[0]) * 0xD2511F53u;
    const uint64_t second = uint64_t(counter.word[2]) * 0xCD9E8D57u;
    counter = {{uint32_t(second >> 32) ^ counter.word[1] ^ key[0], uint32_t(second),
                uint32_t(first >> 32) ^ counter.word[3] ^ key[1], uint32_t(first)}};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

ACCEL_DEVICE inline float to_unit(uint32_t word) {  // inside (0, 1]
  return float(word >> 8) * 0x1p-24f + 0x1p-25f;
}

struct Normals {
  float value[4];  // of dimensions 4 q to 4 q + 3
};

ACCEL_DEVICE inline Normals draw_normals(uint64_t seed, uint32_t row, uint32_t q, uint32_t step,
                                         uint32_t stream) {
  const Words words = philox(seed, {{row, q, step, stream}});
  Normals normals;
  for (int pair = 0; pair < 2; ++pair) {
    const float radius = sqrt_(-2.0f * log_(to_unit(words.word[2 * pair])));
    const float angle = 6.283185307f * to_unit(words.word[2 * pair + 1]);
    normals.value[2 * pair] = radius * cos_(angle);
    normals.value[2 * pair + 1] = radius * sin_(angle);
  }
  return normals;
}

}  // namespace portable
}  // namespace accel
