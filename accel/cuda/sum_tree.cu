// The sum tree on a CUDA device: kernels and memory of accel/device/sum_tree.hpp, and calls whose
// arrays lie on the device already.
#include <algorithm>

#include "accel/device/sum_tree.hpp"
#include "machine.cuh"
#include "tree.hpp"

namespace accel {
namespace cuda {
namespace {

template <class T>
struct SetTo {
  static constexpr int kThreads = 32;
  T* where;
  T value;
  template <class Block>
  __device__ void operator()(Block& block) const {
    portable::parallel(block, 1, [&](int) { *where = value; });
  }
};

template <class Real>
class CudaTreeOf final : public CudaTree, public device::DeviceTree<CudaMachine, Real> {
  using Base = device::DeviceTree<CudaMachine, Real>;
  using Lock = typename Base::Lock;

 public:
  CudaTreeOf(CudaMachine machine, int64_t capacity, int log_fanout)
      : Base(std::move(machine), capacity, log_fanout), status_(1, stream()) {
    clear();
  }

  int device_index() const override { return this->machine_.device(); }
  cudaStream_t stream() const override { return this->machine_.stream(); }
  bool is_float64() const override { return sizeof(Real) == sizeof(double); }

  void sample_there(const void* targets, int64_t n, double beta, int64_t* indices,
                    void* priorities, float* weights) override {
    const Lock lock(*this);
    Real* const found = static_cast<Real*>(priorities);
    const bool stratified = weights != nullptr;
    fill(indices, n), fill(found, n);  // -1 and NaN: what an empty tree gives
    if (stratified) fill(weights, n);
    const auto infinity = portable::to_bits(std::numeric_limits<Real>::infinity());
    this->machine_.launch(SetTo<portable::Bits<Real>>{least_.data(), infinity}, 1);
    this->machine_.launch(
        portable::SampleTree<Real>{tree_there(), static_cast<const Real*>(targets), indices, found,
                                   stratified ? least_.data() : nullptr, n, stratified},
        Base::blocks(n << this->shape_.log_fanout));
    if (stratified)
      this->machine_.launch(portable::WeighRows<Real>{status_.data(), found, least_.data(), weights,
                                                      n, Real(beta)},
                            Base::blocks(n));
  }

  void retrieve_there(const int64_t* indices, int64_t n, void* priorities) override {
    const Lock lock(*this);
    Real* const found = static_cast<Real*>(priorities);
    fill(found, n);
    this->machine_.launch(portable::RetrieveRows<Real>{tree_there(), indices, found, n},
                          Base::blocks(n));
  }

  void change_there(const int64_t* indices, const void* values, int64_t n, bool add) override {
    const Lock lock(*this);
    start_change(indices, static_cast<const Real*>(values), n, add);
  }

  void set_td_errors_there(const int64_t* indices, const float* td_errors, int64_t n, double alpha,
                           double epsilon) override {
    const Lock lock(*this);
    if (size_t(n) > priorities_.size()) {
      auto more = this->machine_.template allocate<Real>(size_t(n));
      this->machine_.wait();  // for changes that read the present ones
      priorities_ = std::move(more);
    }
    this->machine_.launch(portable::PrioritiseRows<Real>{td_errors, priorities_.data(), n,
                                                         Real(alpha), Real(epsilon)},
                          Base::blocks(n));
    start_change(indices, priorities_.data(), n, false);
  }

  void check_there() override {
    const Lock lock(*this);
    const portable::TreeStatus status = this->read(status_.data());
    clear();
    if (status.empty != 0)
      throw std::invalid_argument("the tree must hold a positive priority to sample, all are 0");
    if (status.first_bad != portable::kNoneBad)
      throw std::invalid_argument(
          "indices must be 0 to " + std::to_string(this->shape_.capacity - 1) +
          " and priorities at least 0 and at most " + to_text(this->most()) +
          ", position " + std::to_string(status.first_bad) +
          " of a batch on the device breaks this: it and the changes after it were left out");
  }

 private:
  portable::Tree<Real> tree_there() {
    return {this->shape_, this->nodes_.data(), this->largest_.data(), status_.data()};
  }

  // All bits set.
  template <class T>
  void fill(T* p, int64_t n) {
    if (n > 0) ACCEL_CUDA(cudaMemsetAsync(p, 0xff, size_t(n) * sizeof(T), stream()));
  }

  void clear() {
    const portable::TreeStatus none{portable::kNoneBad, 0};
    this->machine_.put(status_.data(), &none, 1);
  }

  void start_change(const int64_t* indices, const Real* values, int64_t n, bool add) {
    if (n == 0) return;
    this->launch_change({tree_there(), indices, values, this->stamps_.data(), n,
                         Real(this->most()), this->next_stamp(n), add});
  }

  CudaMachine::Buffer<portable::TreeStatus> status_;  // of calls with arrays of the device
  CudaMachine::Buffer<portable::Bits<Real>> least_{1, stream()};
  CudaMachine::Buffer<Real> priorities_;  // that temporal-difference errors make
};

}  // namespace

std::unique_ptr<CudaTree> make_tree(int64_t capacity, int log_fanout, int device,
                                    bool is_float64) {
  CudaMachine machine(device);
  if (is_float64)
    return std::make_unique<CudaTreeOf<double>>(std::move(machine), capacity, log_fanout);
  return std::make_unique<CudaTreeOf<float>>(std::move(machine), capacity, log_fanout);
}

}  // namespace cuda
}  // namespace accel
