// The off-policy learner on a CUDA device: kernels and memory of accel/device/off_policy.hpp, a whole
// step recorded as one graph, and steps on batches that lie on the device already.
#include "accel/device/off_policy.hpp"
#include "learner.hpp"
#include "machine.cuh"

namespace accel {
namespace cuda {
namespace {

class CudaLearnerOf final : public CudaLearner, public device::DeviceLearner<CudaMachine> {
  using Base = device::DeviceLearner<CudaMachine>;

 public:
  using Base::Base;

  int device_index() const override { return machine_.device(); }
  cudaStream_t stream() const override { return machine_.stream(); }

  void learn_there(const portable::BatchPlace& batch, int64_t n, float* td_errors) override {
    const Lock lock(*this);
    place(n);
    begin(batch, at_.place);
    launch_step();
    ++n_steps_;
    ACCEL_CUDA(cudaMemcpyAsync(td_errors, view_.td_errors, size_t(n) * sizeof(float),
                               cudaMemcpyDeviceToDevice, stream()));
  }

  device::StepMeasures last_step() override {
    const Lock lock(*this);
    if (n_steps_ == 0) throw std::invalid_argument("last_step needs a step before it, got none");
    return measures();
  }
};

}  // namespace

std::unique_ptr<CudaLearner> make_learner(const device::LearnerOptions& options,
                                          const Network& actor, const Network& critic, int device,
                                          bool has_graphs) {
  return std::make_unique<CudaLearnerOf>(CudaMachine(device, has_graphs), options, actor, critic);
}

}  // namespace cuda
}  // namespace accel
