// A CUDA device as the drivers in accel/device see it (device/host_machine.hpp says what they ask).
// Everything goes through one non-blocking stream of its own.
#pragma once

#include <map>
#include <string>

#include "block.cuh"
#include "runtime.hpp"

namespace accel {
namespace cuda {

// A recorded sequence of launches.
class Graph {
 public:
  explicit Graph(cudaGraph_t graph) {
    const cudaError_t status = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    check(status, "cudaGraphInstantiate");
  }
  ~Graph() { cudaGraphExecDestroy(executable_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch(cudaStream_t stream) const { ACCEL_CUDA(cudaGraphLaunch(executable_, stream)); }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

class CudaMachine {
 public:
  template <class T>
  class Buffer {
   public:
    Buffer() = default;
    Buffer(size_t n, cudaStream_t stream) : memory_(n * sizeof(T)), n_(n) {
      if (n > 0) ACCEL_CUDA(cudaMemsetAsync(memory_.data(), 0, memory_.size(), stream));
    }
    T* data() const { return reinterpret_cast<T*>(memory_.data()); }
    size_t size() const { return n_; }

   private:
    Memory<DeviceMemory> memory_;
    size_t n_ = 0;
  };

  // The host's half is pinned, so that copies are asynchronous.
  class Mirror {
   public:
    Mirror() = default;
    explicit Mirror(size_t n) : host_(n), device_(n) {}
    char* host() const { return host_.data(); }
    char* device() const { return device_.data(); }
    size_t size() const { return host_.size(); }

   private:
    Memory<PinnedMemory> host_;
    Memory<DeviceMemory> device_;
  };

  explicit CudaMachine(int device, bool has_graphs = true)
      : device_(device), has_graphs_(has_graphs), name_(device_names().at(size_t(device))) {
    use();
    stream_ = std::make_unique<Stream>();
    pushed_ = std::make_unique<Event>();
  }

  std::string name() const { return name_; }
  int device() const { return device_; }
  cudaStream_t stream() const { return stream_->get(); }
  void use() const { ACCEL_CUDA(cudaSetDevice(device_)); }
  void wait() const { stream_->wait(); }

  template <class T>
  Buffer<T> allocate(size_t n) { return Buffer<T>(n, stream()); }
  Mirror mirror(size_t n) { return Mirror(n); }

  void push(Mirror& mirror, size_t from, size_t to) {
    ACCEL_CUDA(cudaMemcpyAsync(mirror.device() + from, mirror.host() + from, to - from,
                               cudaMemcpyHostToDevice, stream()));
    pushed_->record(stream());
  }
  void wait_for_push() const { pushed_->wait(); }
  void pull(Mirror& mirror, size_t from, size_t to) {
    ACCEL_CUDA(cudaMemcpyAsync(mirror.host() + from, mirror.device() + from, to - from,
                               cudaMemcpyDeviceToHost, stream()));
    wait();
  }
  template <class T>
  void put(T* device, const T* host, size_t n) {
    ACCEL_CUDA(cudaMemcpyAsync(device, host, n * sizeof(T), cudaMemcpyHostToDevice, stream()));
    wait();
  }
  template <class T>
  void get(T* host, const T* device, size_t n) {
    ACCEL_CUDA(cudaMemcpyAsync(host, device, n * sizeof(T), cudaMemcpyDeviceToHost, stream()));
    wait();
  }
  template <class T>
  void zero(T* device, size_t n) {
    ACCEL_CUDA(cudaMemsetAsync(device, 0, n * sizeof(T), stream()));
  }

  template <class Body>
  void launch(const Body& body, int n_blocks) {
    run<Body><<<unsigned(n_blocks), Body::kThreads, 0, stream()>>>(body);
    ACCEL_CUDA(cudaGetLastError());
  }

  template <class Record>
  void replay(const std::string& key, Record record) {
    if (!has_graphs_) return record();
    if (graphs_.size() >= kMostGraphs && graphs_.count(key) == 0) forget();
    const auto [found, is_new] = graphs_.try_emplace(key);
    // The first time as it is: kernels are loaded when first launched, which a recording forbids.
    if (is_new) return record();
    if (!found->second) found->second = capture(record);
    found->second->launch(stream());
  }
  void forget() {
    wait();
    graphs_.clear();
  }

 private:
  template <class Record>
  std::unique_ptr<Graph> capture(Record record) {
    cudaGraph_t graph = nullptr;
    // Thread-local: calls of other threads do not disturb this capture.
    ACCEL_CUDA(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal));
    try {
      record();
    } catch (...) {
      cudaStreamEndCapture(stream(), &graph);
      if (graph != nullptr) cudaGraphDestroy(graph);
      throw;
    }
    ACCEL_CUDA(cudaStreamEndCapture(stream(), &graph));
    return std::make_unique<Graph>(graph);
  }

  static constexpr size_t kMostGraphs = 64;  // batch sizes that are kept recorded

  int device_;
  bool has_graphs_;
  std::string name_;
  std::unique_ptr<Stream> stream_;  // before the graphs, which are destroyed first
  std::unique_ptr<Event> pushed_;
  std::map<std::string, std::unique_ptr<Graph>> graphs_;
};

}  // namespace cuda
}  // namespace accel
