// A SYCL device as the drivers in accel/device see it (see device/host_machine.hpp for what they ask).
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "accel/portable/block.hpp"
#include "device.hpp"

namespace accel::sycl_backend {

class SyclMachine {
 public:
  template <class T>
  class Buffer {
   public:
    Buffer() = default;
    Buffer(const std::shared_ptr<Device>& device, std::size_t n)
        : memory_(std::make_unique<Memory>(device, n * sizeof(T))), n_(n) {}
    T* data() const { return memory_ ? static_cast<T*>(memory_->data()) : nullptr; }
    std::size_t size() const { return n_; }

   private:
    std::unique_ptr<Memory> memory_;
    std::size_t n_ = 0;
  };

  class Mirror {
   public:
    Mirror() = default;
    Mirror(const std::shared_ptr<Device>& device, std::size_t n) : bytes_(device, n) {}
    char* host() const { return bytes_.data(); }
    char* device() const { return bytes_.data(); }
    std::size_t size() const { return bytes_.size(); }

   private:
    Buffer<char> bytes_;
  };

  explicit SyclMachine(std::shared_ptr<Program> program)
      : program_(std::move(program)), queue_(program_->device()->make_queue()) {}

  std::string name() const { return program_->device()->kind(); }
  const std::shared_ptr<Program>& program() const { return program_; }
  void use() { program_->device()->require_own_process(); }
  void wait() { queue_.wait_and_throw(); }

  template <class T>
  Buffer<T> allocate(std::size_t n) { return {program_->device(), n}; }
  Mirror mirror(std::size_t n) { return {program_->device(), n}; }

  // Host and device share the memory: nothing to copy, only to wait for.
  void push(Mirror&, std::size_t, std::size_t) {}
  void pull(Mirror&, std::size_t, std::size_t) { wait(); }
  void wait_for_push() { wait(); }
  template <class T>
  void put(T* device, const T* host, std::size_t n) {
    wait();
    std::memcpy(device, host, n * sizeof(T));
  }
  template <class T>
  void get(T* host, const T* device, std::size_t n) {
    wait();
    std::memcpy(host, device, n * sizeof(T));
  }
  template <class T>
  void zero(T* device, std::size_t n) { queue_.memset(device, 0, n * sizeof(T)); }

  // A body is the kernel of its name; the blocks' shared arrays lie in global memory, which on a
  // processor is the same as local memory.
  template <class Body>
  void launch(const Body& body, int n_blocks) {
    const auto n = static_cast<std::size_t>(n_blocks);
    if (shared_.size() < n * portable::kSharedFloats) {
      wait();  // for launches that use the present one
      shared_ = allocate<float>(n * portable::kSharedFloats);
    }
    const sycl::kernel kernel = program_->kernel(Body::kName);
    float* const shared = shared_.data();
    queue_.submit([&](sycl::handler& handler) {
      handler.set_args(body, shared);
      constexpr auto n_threads = static_cast<std::size_t>(Body::kThreads);
      handler.parallel_for(sycl::nd_range<1>(n * n_threads, n_threads), kernel);
    });
  }

  // Pipelines: kernels of different queues run at the same time.
  sycl::queue& queue() { return queue_; }
  sycl::queue make_queue() const { return program_->device()->make_queue(); }
  template <class... Arguments>
  void single_task(sycl::queue& queue, const std::string& name, const Arguments&... arguments) {
    const sycl::kernel kernel = program_->kernel(name);
    queue.submit([&](sycl::handler& handler) {
      handler.set_args(arguments...);
      handler.single_task(kernel);
    });
  }

  template <class Record>
  void replay(const std::string&, Record record) { record(); }
  void forget() {}

 private:
  std::shared_ptr<Program> program_;
  sycl::queue queue_;
  Buffer<float> shared_;
};

}  // namespace accel::sycl_backend
