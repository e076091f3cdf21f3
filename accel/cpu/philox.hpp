// Normals that are a function of seed, step, stream, row and dimension alone: Philox4x32-10 (Salmon et
// al., SC 2011) and Box-Muller, see accel/reference/philox.py.
#pragma once

#include "accel/off_policy_kernels.hpp"
#include "elementary.hpp"
#include "float_optimiser.hpp"

namespace accel {
namespace ACCEL_VARIANT {

constexpr int kDrawn = 16;  // rows at a time

// words (4, kDrawn) for successive rows
inline void philox(const Normals& s, uint32_t first_row, uint32_t group,
                   uint32_t (&words)[4][kDrawn]) {
  for (int i = 0; i < kDrawn; ++i) {
    words[0][i] = first_row + static_cast<uint32_t>(i);
    words[1][i] = group, words[2][i] = s.step, words[3][i] = s.stream;
  }
  uint32_t key0 = static_cast<uint32_t>(s.seed), key1 = static_cast<uint32_t>(s.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kDrawn; ++i) {
      const uint64_t a = uint64_t{0xD2511F53} * words[0][i], b = uint64_t{0xCD9E8D57} * words[2][i];
      words[0][i] = static_cast<uint32_t>(b >> 32) ^ words[1][i] ^ key0;
      words[1][i] = static_cast<uint32_t>(b);
      words[2][i] = static_cast<uint32_t>(a >> 32) ^ words[3][i] ^ key1;
      words[3][i] = static_cast<uint32_t>(a);
    }
    key0 += 0x9E3779B9u, key1 += 0xBB67AE85u;
  }
}

// (0, 1], from the upper 24 bits
ACCEL_INLINE Vec uniform(const uint32_t* words) {
  const IntVec upper = (IntVec)load(reinterpret_cast<const float*>(words));
  const IntVec bits = (upper >> 8) & 0x00ffffff;
  return fma(__builtin_convertvector(bits, Vec), splat(0x1p-24f), splat(0x1p-25f));
}

// sin and cos of 2 pi u, 0 <= u <= 1: minimax-like odd and even series on an eighth of the circle each way
ACCEL_INLINE void circle(Vec u, Vec& sine, Vec& cosine) {
  const Vec magic = splat(12582912.0f);
  const Vec shifted = fma(u, splat(4.0f), magic);
  const IntVec quarter = (IntVec)shifted - (IntVec)magic;
  const Vec t = fma(u, splat(4.0f), magic - shifted) * 1.57079633f;
  const Vec z = t * t;
  Vec s = splat(-1.95152959e-4f);
  s = fma(s, z, splat(8.33216087e-3f));
  s = fma(s, z, splat(-1.66666546e-1f));
  s = fma(s * z, t, t);
  Vec c = splat(2.44331571e-5f);
  c = fma(c, z, splat(-1.38873162e-3f));
  c = fma(c, z, splat(4.16666457e-2f));
  c = fma(c * z, z, fma(z, splat(-0.5f), splat(1.0f)));
  const IntVec swaps = (quarter & 1) == 1;
  const Vec first = select(swaps, c, s), second = select(swaps, s, c);
  sine = select((quarter & 2) == 2, -first, first);
  cosine = select(((quarter + 1) & 2) == 2, -second, second);
}

inline void normals(const Normals& s) {
  uint32_t words[4][kDrawn];
  for (int group = 0; group * 4 < s.n_actions; ++group)
    for (int row = 0; row < s.stride; row += kDrawn) {
      philox(s, s.first_row + static_cast<uint32_t>(row), static_cast<uint32_t>(group), words);
      for (int v = 0; v < kDrawn; v += kLanes)
        for (int pair = 0; pair < 2; ++pair) {
          const int d = 4 * group + 2 * pair;
          if (d >= s.n_actions) break;
          const Vec radius = square_root(-2.0f * log(uniform(words[2 * pair] + v)));
          Vec sine, cosine;
          circle(uniform(words[2 * pair + 1] + v), sine, cosine);
          store(s.out + int64_t{d} * s.stride + row + v, radius * cosine);
          if (d + 1 < s.n_actions)
            store(s.out + int64_t{d + 1} * s.stride + row + v, radius * sine);
        }
    }
}

}  // namespace ACCEL_VARIANT
}  // namespace accel
