// A SYCL device as this backend uses it: memory, and programs made of SPIR-V.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#define SYCL_DISABLE_FSYCL_SYCLHPP_WARNING
#include <CL/cl.h>
#include <sycl/backend/opencl.hpp>
#include <sycl/sycl.hpp>

namespace accel::sycl_backend {

// "cpu" or "fpga_emulator" and the name that the driver gives, one a device found.
std::vector<std::pair<std::string, std::string>> list_devices();

class Device {
 public:
  explicit Device(const std::string& kind);

  std::string name() const { return device_.get_info<sycl::info::device::name>(); }
  std::string driver() const { return device_.get_info<sycl::info::device::driver_version>(); }
  // For sum trees: the largest priority is found by atomics of the type's size.
  bool has_float64() const {
    return device_.has(sycl::aspect::fp64) && device_.has(sycl::aspect::atomic64);
  }
  const sycl::device& device() const { return device_; }
  const sycl::context& context() const { return context_; }

  const std::string& kind() const { return kind_; }
  // Kernels of one queue run in order, those of different ones at the same time.
  sycl::queue make_queue() const {
    require_own_process();
    return {context_, device_, sycl::property::queue::in_order{}};
  }
  // The runtime's threads are not there in a forked process: calls would wait for them forever.
  void require_own_process() const {
    if (getpid() != process_)
      throw std::runtime_error("a SYCL device must stay in the process that opened it, "
                               "got a forked one: start processes by spawn");
  }

  // Source text to SPIR-V by the compiler inside libsycl-jit; `kernel` is the name of any kernel.
  std::string compile(const std::string& source, const std::vector<std::string>& options,
                      const std::string& kernel) const;

 private:
  std::string kind_;
  sycl::device device_;
  sycl::context context_;
  int process_ = getpid();
};

// Zeroed memory that host and device see at the same address.
class Memory {
 public:
  Memory(std::shared_ptr<Device> device, std::size_t n_bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* data() const { return data_; }
  std::size_t n_bytes() const { return n_bytes_; }

 private:
  std::shared_ptr<Device> device_;
  std::size_t n_bytes_;
  void* data_;
};

class Program {
 public:
  // From SPIR-V, or from what `binary` returned.
  Program(std::shared_ptr<Device> device, const std::string& code, bool is_binary);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  const std::shared_ptr<Device>& device() const { return device_; }
  sycl::kernel kernel(const std::string& name);
  // The device's own code, to load again on the same kind of device with the same driver.
  std::string binary() const;

 private:
  void build(cl_device_id device);

  std::shared_ptr<Device> device_;
  cl_program program_ = nullptr;
  std::mutex mutex_;
  std::map<std::string, sycl::kernel> kernels_;
};

}  // namespace accel::sycl_backend
