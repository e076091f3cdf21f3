// Matrix products of one block of threads, in tiles that the threads share.
#pragma once

#include "accel/portable/block.hpp"

namespace accel {
namespace portable {

// Element (i, j) is p[i * row + j * column]: a matrix, or the transpose of one.
struct Matrix {
  const float* p;
  int64_t row, column;
  ACCEL_DEVICE float operator()(int i, int j) const { return p[i * row + j * column]; }
};

constexpr int kLearnerThreads = 256;
constexpr int kThreadRows = 16, kThreadColumns = 16;  // of a block
constexpr int kPerRow = 2, kPerColumn = 4;            // elements of a thread
constexpr int kTileRows = kThreadRows * kPerRow, kTileColumns = kThreadColumns * kPerColumn;
constexpr int kTileInner = 32;
// One more than the width, so that a column's elements lie in different banks of shared memory.
constexpr int kLeftStride = kTileRows + 1, kRightStride = kTileColumns + 1;
static_assert(kTileInner * (kLeftStride + kRightStride) <= kSharedFloats, "tiles are shared");

// Element e of a tile n_rows x n_columns, its contiguous direction first: neighbours in memory go to
// neighbouring threads.
template <class Function>
ACCEL_DEVICE inline void load_tile(int thread, int n_rows, int n_columns, bool by_rows,
                                   Function load) {
  for (int e = thread; e < n_rows * n_columns; e += kLearnerThreads) {
    if (by_rows)
      load(e / n_columns, e % n_columns);
    else
      load(e % n_rows, e / n_rows);
  }
}

struct Tile {
  int row, column, inner;  // of its first element
};

struct Extent {
  int rows, columns, inner;  // a is (rows, inner), b (inner, columns)
};

// left[k][i] and right[k][j], zero beyond the edges.
ACCEL_DEVICE inline void load_tiles(int thread, float* shared, const Matrix& a, const Matrix& b,
                                    const Extent& n, const Tile& at) {
  float* left = shared;
  float* right = shared + kTileInner * kLeftStride;
  load_tile(thread, kTileRows, kTileInner, a.column == 1, [&](int i, int k) {
    const bool inside = at.row + i < n.rows && at.inner + k < n.inner;
    left[k * kLeftStride + i] = inside ? a(at.row + i, at.inner + k) : 0.0f;
  });
  load_tile(thread, kTileInner, kTileColumns, b.column == 1, [&](int k, int j) {
    const bool inside = at.inner + k < n.inner && at.column + j < n.columns;
    right[k * kRightStride + j] = inside ? b(at.inner + k, at.column + j) : 0.0f;
  });
}

// A thread's elements lie kThreadRows and kThreadColumns apart.
ACCEL_DEVICE inline void multiply_tiles(int thread, const float* shared, int n_inner, float* sums) {
  const float* left = shared + thread / kThreadColumns;
  const float* right = shared + kTileInner * kLeftStride + thread % kThreadColumns;
  for (int k = 0; k < n_inner; ++k, left += kLeftStride, right += kRightStride) {
    ACCEL_UNROLL
    for (int i = 0; i < kPerRow; ++i) {
      ACCEL_UNROLL
      for (int j = 0; j < kPerColumn; ++j)
        sums[i * kPerColumn + j] += left[i * kThreadRows] * right[j * kThreadColumns];
    }
  }
}

template <class Store>
ACCEL_DEVICE inline void store_tile(int thread, const Extent& n, const Tile& at, const float* sums,
                                    Store store) {
  const int row = at.row + thread / kThreadColumns, column = at.column + thread % kThreadColumns;
  ACCEL_UNROLL
  for (int i = 0; i < kPerRow; ++i) {
    ACCEL_UNROLL
    for (int j = 0; j < kPerColumn; ++j)
      if (row + i * kThreadRows < n.rows && column + j * kThreadColumns < n.columns)
        store(row + i * kThreadRows, column + j * kThreadColumns, sums[i * kPerColumn + j]);
  }
}

// store(i, j, sum over k of a(i, k) b(k, j)), k in ascending order. The caller's barrier comes before
// what is stored is read.
template <class Block, class Store>
ACCEL_DEVICE inline void multiply(Block& block, const Matrix& a, const Matrix& b, const Extent& n,
                                  Store store) {
  static_assert(Block::kThreads == kLearnerThreads, "tiles are laid out for so many threads");
  typename Block::template Registers<float, kPerRow * kPerColumn> sums;
  Tile at{};
  for (at.row = 0; at.row < n.rows; at.row += kTileRows)
    for (at.column = 0; at.column < n.columns; at.column += kTileColumns) {
      block.threads([&](int thread) {
        for (int e = 0; e < kPerRow * kPerColumn; ++e) sums.of(thread)[e] = 0.0f;
      });
      for (at.inner = 0; at.inner < n.inner; at.inner += kTileInner) {
        block.threads([&](int t) { load_tiles(t, block.shared(), a, b, n, at); });
        block.barrier();
        const int n_inner = least(kTileInner, n.inner - at.inner);
        block.threads([&](int t) { multiply_tiles(t, block.shared(), n_inner, sums.of(t)); });
        block.barrier();
      }
      block.threads([&](int t) { store_tile(t, n, at, sums.of(t), store); });
    }
}

// Sum of f(i) over i from 0 to n - 1, to every thread; the order depends on kThreads alone.
template <class Block, class Function>
ACCEL_DEVICE inline Wide block_sum(Block& block, int64_t n, Function f) {
  Wide* sums = reinterpret_cast<Wide*>(block.shared());
  block.threads([&](int thread) {
    Wide sum = 0;
    for (int64_t i = thread; i < n; i += Block::kThreads) sum += Wide(f(i));
    sums[thread] = sum;
  });
  block.barrier();
  for (int half = Block::kThreads / 2; half > 0; half /= 2) {
    block.threads([&](int thread) {
      if (thread < half) sums[thread] += sums[thread + half];
    });
    block.barrier();
  }
  const Wide sum = sums[0];
  block.barrier();  // before the memory is used again
  return sum;
}

}  // namespace portable
}  // namespace accel
