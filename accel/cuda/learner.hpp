// The off-policy learner of a CUDA device as its binding sees it.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "accel/device/learner.hpp"
#include "dlpack.hpp"

namespace accel {
namespace cuda {

class CudaLearner : public virtual device::Learner {
 public:
  Keeper keeper;  // of the callers' arrays

  virtual int device_index() const = 0;
  virtual cudaStream_t stream() const = 0;
  // Starts a whole step on arrays of the device and copies |TD errors| (n,) to td_errors.
  virtual void learn_there(const portable::BatchPlace& batch, int64_t n, float* td_errors) = 0;
  virtual device::StepMeasures last_step() = 0;  // waits
};

std::unique_ptr<CudaLearner> make_learner(const device::LearnerOptions& options,
                                          const Network& actor, const Network& critic, int device,
                                          bool has_graphs);

}  // namespace cuda
}  // namespace accel
