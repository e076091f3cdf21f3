// A block of threads of the device: what portable/block.hpp asks for.
#pragma once

#include "accel/portable/block.hpp"
#include "lanes.cuh"

namespace accel {
namespace cuda {

template <int kBlockThreads>
class CudaBlock {
 public:
  static constexpr int kThreads = kBlockThreads;

  template <class T, int n>
  using Registers = portable::OwnRegisters<T, n>;

  __device__ int index() const { return int(blockIdx.x); }
  __device__ int n_blocks() const { return int(gridDim.x); }
  __device__ void barrier() const { __syncthreads(); }

  __device__ float* shared() const {
    __shared__ __align__(16) float memory[portable::kSharedFloats];
    return memory;
  }

  template <class Function>
  __device__ void threads(Function function) const { function(int(threadIdx.x)); }

  template <class Function>
  __device__ void groups(int64_t n, int log_fanout, Function function) const {
    if (log_fanout > 5)
      groups_of<2>(n, portable::kMostLanes, function);
    else
      groups_of<1>(n, 1 << log_fanout, function);
  }

 private:
  // The lanes of a warp stay together: its last groups repeat the last item.
  template <int kParts, class Function>
  __device__ void groups_of(int64_t n, int width, Function& function) const {
    const int thread = int(threadIdx.x), per_warp = portable::kMostLanes / width;
    const int64_t per_block = kThreads / width;
    const int in_warp = thread % portable::kMostLanes / width;
    WarpLanes<kParts> lanes(width, thread % width);
    int64_t first = index() * per_block + thread / portable::kMostLanes * per_warp;
    for (; first < n; first += per_block * n_blocks())
      function(lanes, portable::least(first + in_warp, n - 1));
  }
};

template <class Body>
__global__ void __launch_bounds__(Body::kThreads) run(const __grid_constant__ Body body) {
  CudaBlock<Body::kThreads> block;
  body(block);
}

}  // namespace cuda
}  // namespace accel
