// Calls of the CUDA runtime: a failure is a std::runtime_error (RuntimeError in Python) with the call
// and CUDA's own text.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace accel {
namespace cuda {

inline void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // or the next call that is right would report it again
  throw std::runtime_error(std::string(call) + " failed: " + cudaGetErrorString(status) + " (" +
                           cudaGetErrorName(status) + ")");
}

#define ACCEL_CUDA(call) ::accel::cuda::check(call, #call)

// Names of the devices; none without a driver.
std::vector<std::string> device_names();
// Why there is no device; empty where there is one.
std::string why_no_device();
// "": the first; else "1", "cuda:1" or the number and name.
int find_device(const std::string& device);

class Stream {
 public:
  Stream() { ACCEL_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~Stream() {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }
  void wait() const { ACCEL_CUDA(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event() { ACCEL_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(cudaStream_t stream) { ACCEL_CUDA(cudaEventRecord(event_, stream)); }
  void hold_back(cudaStream_t stream) const { ACCEL_CUDA(cudaStreamWaitEvent(stream, event_, 0)); }
  void wait() const { ACCEL_CUDA(cudaEventSynchronize(event_)); }
  bool has_passed() const { return cudaEventQuery(event_) == cudaSuccess; }

 private:
  cudaEvent_t event_ = nullptr;
};

// Memory that one of CUDA's pairs of calls makes and gives back.
struct DeviceMemory {
  static void make(void** p, size_t n) { ACCEL_CUDA(cudaMalloc(p, n)); }
  static void give_back(void* p) { cudaFree(p); }
};
struct PinnedMemory {
  static void make(void** p, size_t n) { ACCEL_CUDA(cudaHostAlloc(p, n, cudaHostAllocDefault)); }
  static void give_back(void* p) { cudaFreeHost(p); }
};

template <class Kind>
class Memory {
 public:
  Memory() = default;
  explicit Memory(size_t n) : n_(n) {
    void* p = nullptr;
    if (n > 0) Kind::make(&p, n);
    memory_.reset(static_cast<char*>(p));
  }
  char* data() const { return memory_.get(); }
  size_t size() const { return n_; }

 private:
  struct GiveBack {
    void operator()(char* p) const { Kind::give_back(p); }
  };
  std::unique_ptr<char, GiveBack> memory_;
  size_t n_ = 0;
};

}  // namespace cuda
}  // namespace accel
