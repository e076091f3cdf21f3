// Matrix products for small dense layers: a tile of C stays in registers for the whole depth.
#pragma once

#include "accel/kernels.hpp"
#include "activations.hpp"

namespace accel {
namespace ACCEL_VARIANT {

constexpr int kMaxTileRows = 6;

// Tiles below each other: their first row in A and C, their columns in B and C.
struct Tiles {
  const float* a;
  const float* b;
  const float* bias;
  const float* y;
  float* c;
  int n_valid;  // columns of C that may be written
  int count;
};

inline void store_first(float* p, Vec v, int n) {
  if (n >= kLanes) return store(p, v);
  for (int i = 0; i < n; ++i) p[i] = v[i];
}

// c (R, V vectors) += a (R, n_depth) b (n_depth, V vectors)
template <int R, int V>
ACCEL_INLINE void add_product(Vec (&c)[R][V], int n_depth, const float* a, int64_t a_row_stride,
                              int64_t a_depth_stride, const float* b, int64_t b_depth_stride) {
  for (int k = 0; k < n_depth; ++k) {
    Vec row[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) row[v] = load(b + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec x = splat(a[r * a_row_stride]);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) c[r][v] = fma(x, row[v], c[r][v]);
    }
    a += a_depth_stride;
    b += b_depth_stride;
  }
}

template <Activation kind, int R, int V>
ACCEL_INLINE void differentiate_tile_as(Vec (&c)[R][V], const float* y, int64_t y_stride) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v)
      c[r][v] = derivative<kind>(load(y + r * y_stride + v * kLanes), c[r][v]);
}

template <int R, int V>
ACCEL_INLINE void differentiate_tile(int kind, Vec (&c)[R][V], const float* y, int64_t y_stride) {
  switch (static_cast<Activation>(kind)) {
    case Activation::relu: return differentiate_tile_as<Activation::relu>(c, y, y_stride);
    case Activation::tanh: return differentiate_tile_as<Activation::tanh>(c, y, y_stride);
    case Activation::sigmoid: return differentiate_tile_as<Activation::sigmoid>(c, y, y_stride);
    default: return;
  }
}

template <int R, int V>
void multiply_tiles(const Gemm& g, Tiles t) {
  const Gemm l = g;  // no store can change a local copy
  for (; t.count > 0; --t.count) {
    Vec c[R][V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const Vec start = l.start == Start::bias ? load(t.bias + v * kLanes) : Vec{};
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) c[r][v] = start;
    }
    if (l.start == Start::accumulate)
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) c[r][v] = load(t.c + r * l.c_stride + v * kLanes);
    add_product(c, l.n_depth, t.a, l.a_row_stride, l.a_depth_stride, t.b, l.b_depth_stride);
    if (l.y != nullptr) differentiate_tile(l.activation, c, t.y, l.y_stride);
    if (l.rectify)
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) c[r][v] = at_least(c[r][v], Vec{});
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        float* p = t.c + r * l.c_stride + v * kLanes;
        // Only the last vector of a row can be partial.
        if (v + 1 < V) store(p, c[r][v]);
        else store_first(p, c[r][v], t.n_valid - v * kLanes);
      }
    t.a += R * l.a_row_stride;
    t.c += R * l.c_stride;
    if (l.y != nullptr) t.y += R * l.y_stride;
  }
}

template <int V>
void multiply_rows(int n_rows, const Gemm& g, const Tiles& t) {
  switch (n_rows) {
    case 1: return multiply_tiles<1, V>(g, t);
    case 2: return multiply_tiles<2, V>(g, t);
    case 3: return multiply_tiles<3, V>(g, t);
    case 4: return multiply_tiles<4, V>(g, t);
    case 5: return multiply_tiles<5, V>(g, t);
    default: return multiply_tiles<6, V>(g, t);
  }
}

inline void multiply(int n_rows, int n_vectors, const Gemm& g, const Tiles& t) {
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

// A single row of C: eight vectors side by side hide the latency of the multiply-add.
inline int multiply_single_row(const Gemm& g, int available) {
  int column = 0;
  for (; g.n_columns - column >= 8 * kLanes; column += 8 * kLanes)
    multiply_tiles<1, 8>(g, {g.a, g.b + column, g.bias, g.y, g.c + column,
                             available - column, 1});
  return column;
}

inline void gemm(const Gemm& g) {
  constexpr int width = kPanelVectors * kLanes;
  const int padded = (g.n_columns + kLanes - 1) / kLanes * kLanes;
  const int available = g.c_padded ? padded : g.n_columns;
  // Rows are shared out evenly among tiles of at most six: some with `low + 1` rows, then some with
  // `low`.
  const int n_tiles = (g.n_rows + kMaxTileRows - 1) / kMaxTileRows;
  const int low = g.n_rows / n_tiles, n_high = g.n_rows % n_tiles;
  const bool is_single = g.n_rows == 1 && !g.b_packed && g.c_panel_stride == 0;
  int column = is_single ? multiply_single_row(g, available) : 0;
  for (; column < g.n_columns; column += width) {
    const int left = (padded - column) / kLanes;
    const int n_vectors = left < kPanelVectors ? left : kPanelVectors;
    const float* b = g.b_packed ? g.b + column / width * g.b_panel_stride : g.b + column;
    const float* bias = g.start == Start::bias ? g.bias + column : nullptr;
    const float* y = g.y != nullptr ? g.y + column : nullptr;
    float* c = g.c + (g.c_panel_stride > 0 ? column / width * g.c_panel_stride : column);
    Tiles t{g.a, b, bias, y, c, available - column, n_high};
    if (n_high > 0) multiply(low + 1, n_vectors, g, t);
    const int done = n_high * (low + 1);
    t.a += done * g.a_row_stride;
    t.c += done * g.c_stride;
    if (g.y != nullptr) t.y += done * g.y_stride;
    t.count = n_tiles - n_high;
    multiply(low, n_vectors, g, t);
  }
}

// One output of R rows side by side, a (R rows) b (n_in).
template <int R>
ACCEL_INLINE void dot_rows(const float* a, int64_t a_stride, const float* b, int n_in, float bias,
                           float* c, int64_t c_stride) {
  Vec sum[R][kSumVectors];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < kSumVectors; ++v) sum[r][v] = Vec{};
  int k = 0;
  for (; k + 16 <= n_in; k += 16)
    for (int v = 0; v < kSumVectors; ++v)
      for (int r = 0; r < R; ++r) {
        const int at = k + v * kLanes;
        sum[r][v] = fma(load(a + r * a_stride + at), load(b + at), sum[r][v]);
      }
  if (k < n_in)
    for (int v = 0; v < kSumVectors; ++v)
      for (int r = 0; r < R; ++r) {
        const int at = k + v * kLanes;
        // What lies beyond n_in belongs to others and may be anything.
        const Vec x = keep_first(load(a + r * a_stride + at), n_in - at);
        sum[r][v] = fma(x, load(b + at), sum[r][v]);
      }
  for (int r = 0; r < R; ++r) c[r * c_stride] = bias + sum_sixteen(sum[r]);
}

inline void narrow_forward(const NarrowForward& g) {
  for (int j = 0; j < g.n_out; ++j) {
    const float* b = g.b + j * g.b_stride;
    int row = 0;
    for (; row + 4 <= g.n_rows; row += 4)
      dot_rows<4>(g.a + row * g.a_stride, g.a_stride, b, g.n_in, g.bias[j],
                  g.c + row * g.c_stride + j, g.c_stride);
    for (; row < g.n_rows; ++row)
      dot_rows<1>(g.a + row * g.a_stride, g.a_stride, b, g.n_in, g.bias[j],
                  g.c + row * g.c_stride + j, g.c_stride);
  }
}

template <int V>
ACCEL_INLINE void sum_columns(const float* a, int64_t stride, int n_rows, int n, float* out,
                              bool accumulate) {
  Vec sum[V];
  for (int v = 0; v < V; ++v) sum[v] = accumulate ? load(out + v * kLanes) : Vec{};
  for (int row = 0; row < n_rows; ++row)
    for (int v = 0; v < V; ++v) sum[v] += load(a + row * stride + v * kLanes);
  for (int v = 0; v < V; ++v) store_first(out + v * kLanes, sum[v], n - v * kLanes);
}

inline void sum_rows(const float* a, int64_t stride, int n_rows, int n, float* out,
                     bool accumulate) {
  int j = 0;
  for (; j + 4 * kLanes <= n; j += 4 * kLanes)
    sum_columns<4>(a + j, stride, n_rows, n - j, out + j, accumulate);
  for (; j < n; j += kLanes) sum_columns<1>(a + j, stride, n_rows, n - j, out + j, accumulate);
}

}  // namespace ACCEL_VARIANT
}  // namespace accel
