// Sums in 64-bit fixed point: exact, so independent of their order. A chunk's term stays below 2^51
// units and at most 2^12 chunks are added, so that no sum leaves 63 bits.
#pragma once

#include <cmath>
#include <cstdint>

#include "accel/ppo_learner.hpp"

namespace accel {

constexpr double kRange = 2251799813685248.0;  // 2^51
constexpr int64_t kMaxChunks = 4096;
constexpr int kFirstExponent = 40;
constexpr int kLowestExponent = -70, kHighestExponent = 100;
constexpr int kTargetBits = 45;   // magnitudes are kept just below 2^45: room to grow 64 times
constexpr int kLeastBits = 32;    // below, the step is computed again with a finer unit
constexpr int kOverflowStep = 16; // bits given up after an overflow

constexpr Word kMagnitude[2] = {Word::actor_magnitude, Word::critic_magnitude};
constexpr Word kOverflow[2] = {Word::actor_overflow, Word::critic_overflow};

inline int64_t& word(int64_t* words, Word w) { return words[static_cast<int>(w)]; }
inline int64_t word(const int64_t* words, Word w) { return words[static_cast<int>(w)]; }

// Statistics have no common size: a coarse word in units of 2^20 and a fine one in units of 2^-32.
constexpr double kCoarse = 1048576.0, kFine = 4294967296.0;

// False where there is no number; too large a one counts as the largest.
inline bool add_pair(int64_t* words, Word first, double value) {
  if (!std::isfinite(value)) return false;
  value = std::fmax(-kCoarse * kRange, std::fmin(kCoarse * kRange, value));
  const double coarse = std::nearbyint(value / kCoarse);
  int64_t* pair = words + static_cast<int>(first);
  pair[0] += int64_t(coarse);
  pair[1] += int64_t(std::nearbyint((value - coarse * kCoarse) * kFine));
  return true;
}

inline double read_pair(const int64_t* words, Word first) {
  const int64_t* pair = words + static_cast<int>(first);
  return double(pair[0]) * kCoarse + double(pair[1]) / kFine;
}

}  // namespace accel
