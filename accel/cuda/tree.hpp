// The sum tree of a CUDA device as its binding sees it.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "accel/device/tree.hpp"
#include "dlpack.hpp"

namespace accel {
namespace cuda {

// Beside the calls with arrays of the host: calls with arrays of the device, which only start the
// work on the tree's stream. What is wrong with such arrays the device finds out; until `check_device`
// has told it, further changes of this kind leave the tree as it is.
class CudaTree : public virtual device::Tree {
 public:
  Keeper keeper;  // of the callers' arrays

  virtual int device_index() const = 0;
  virtual cudaStream_t stream() const = 0;
  virtual bool is_float64() const = 0;
  // targets or uniforms, priorities: of the tree's type; weights null: as `sample`
  virtual void sample_there(const void* targets, int64_t n, double beta, int64_t* indices,
                            void* priorities, float* weights) = 0;
  virtual void retrieve_there(const int64_t* indices, int64_t n, void* priorities) = 0;
  virtual void change_there(const int64_t* indices, const void* values, int64_t n, bool add) = 0;
  virtual void set_td_errors_there(const int64_t* indices, const float* td_errors, int64_t n,
                                   double alpha, double epsilon) = 0;
  virtual void check_there() = 0;  // waits
};

std::unique_ptr<CudaTree> make_tree(int64_t capacity, int log_fanout, int device, bool is_float64);

}  // namespace cuda
}  // namespace accel
