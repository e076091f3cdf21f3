// Matrix products for small dense layers: a tile of C stays in registers for the whole depth.
#pragma once

#include "accel/kernels.hpp"
#include "simd.hpp"

namespace accel {
namespace ACCEL_VARIANT {

constexpr int kMaxTileRows = 6;

// The first column of a tile of C, its rows, and what is left of C to its right.
struct Tile {
  const float* a;
  const float* b;
  const float* bias;
  float* c;
  int n_valid;  // columns of C that may be written
};

ACCEL_INLINE void store_first(float* p, Vec v, int n) {
  if (n >= kLanes) {
    store(p, v);
  } else {
    for (int i = 0; i < n; ++i) p[i] = v[i];
  }
}

template <int R, int V>
void multiply_tile(const Gemm& g, const Tile& t) {
  Vec sum[R][V];
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) {
    const Vec bias = g.start == Start::bias ? load(t.bias + v * kLanes) : Vec{};
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
      sum[r][v] =
          g.start == Start::accumulate ? load(t.c + r * g.c_stride + v * kLanes) : bias;
  }
  const float* a = t.a;
  const float* b = t.b;
  for (int k = 0; k < g.n_depth; ++k) {
    Vec column[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) column[v] = load(b + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec x = splat(a[r * g.a_row_stride]);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[r][v] = fma(x, column[v], sum[r][v]);
    }
    a += g.a_depth_stride;
    b += g.b_depth_stride;
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v)
      store_first(t.c + r * g.c_stride + v * kLanes, sum[r][v], t.n_valid - v * kLanes);
}

template <int V>
void multiply_rows(int n_rows, const Gemm& g, const Tile& t) {
  switch (n_rows) {
    case 1: return multiply_tile<1, V>(g, t);
    case 2: return multiply_tile<2, V>(g, t);
    case 3: return multiply_tile<3, V>(g, t);
    case 4: return multiply_tile<4, V>(g, t);
    case 5: return multiply_tile<5, V>(g, t);
    default: return multiply_tile<6, V>(g, t);
  }
}

ACCEL_INLINE void multiply(int n_rows, int n_vectors, const Gemm& g, const Tile& t) {
  switch (n_vectors) {
    case 1: return multiply_rows<1>(n_rows, g, t);
    case 2: return multiply_rows<2>(n_rows, g, t);
#if defined(__AVX512F__) || defined(__aarch64__)
    case 3: return multiply_rows<3>(n_rows, g, t);
    case 4: return multiply_rows<4>(n_rows, g, t);
#endif
    default: return;
  }
}

// One panel of columns, its rows shared out evenly among tiles of at most six.
inline void multiply_panel(const Gemm& g, Tile t, int n_vectors) {
  int tiles = (g.n_rows + kMaxTileRows - 1) / kMaxTileRows;
  for (int row = 0; row < g.n_rows; --tiles) {
    const int n = (g.n_rows - row + tiles - 1) / tiles;
    multiply(n, n_vectors, g, t);
    t.a += n * g.a_row_stride;
    t.c += n * g.c_stride;
    row += n;
  }
}

// A single row of C: eight vectors side by side hide the latency of the multiply-add.
inline int multiply_single_row(const Gemm& g, int available) {
  int column = 0;
  for (; g.n_columns - column >= 8 * kLanes; column += 8 * kLanes) {
    const Tile t{g.a, g.b + column, g.bias + column, g.c + column, available - column};
    multiply_tile<1, 8>(g, t);
  }
  return column;
}

inline void gemm(const Gemm& g) {
  constexpr int width = kPanelVectors * kLanes;
  const int padded = (g.n_columns + kLanes - 1) / kLanes * kLanes;
  const int available = g.c_padded ? padded : g.n_columns;
  int column = g.n_rows == 1 && !g.b_packed ? multiply_single_row(g, available) : 0;
  for (; column < g.n_columns; column += width) {
    const int left = (padded - column) / kLanes;
    const float* b = g.b_packed ? g.b + column / width * g.b_panel_stride : g.b + column;
    const float* bias = g.start == Start::bias ? g.bias + column : nullptr;
    const Tile t{g.a, b, bias, g.c + column, available - column};
    multiply_panel(g, t, left < kPanelVectors ? left : kPanelVectors);
  }
}

inline void narrow_forward(const NarrowForward& g) {
  for (int row = 0; row < g.n_rows; ++row) {
    const float* a = g.a + row * g.a_stride;
    for (int j = 0; j < g.n_out; ++j) {
      const float* b = g.b + j * g.b_stride;
      Vec sum[kSumVectors] = {};
      for (int k = 0; k < g.n_in; k += 16)
        for (int v = 0; v < kSumVectors; ++v) {
          const int at = k + v * kLanes;
          // What lies beyond n_in belongs to others and may be anything.
          const Vec x = at + kLanes <= g.n_in ? load(a + at) : keep_first(load(a + at), g.n_in - at);
          sum[v] = fma(x, load(b + at), sum[v]);
        }
      g.c[row * g.c_stride + j] = g.bias[j] + sum_sixteen(sum);
    }
  }
}

inline void sum_rows(const float* a, int64_t stride, int n_rows, int n, float* out,
                     bool accumulate) {
  for (int j = 0; j < n; j += kLanes) {
    Vec sum = accumulate ? load(out + j) : Vec{};
    for (int row = 0; row < n_rows; ++row) sum += load(a + row * stride + j);
    store_first(out + j, sum, n - j);
  }
}

}  // namespace ACCEL_VARIANT
}  // namespace accel
