// A SYCL device as this backend uses it: memory, programs made of SPIR-V, and runs of their kernels.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
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
  bool has_float64() const { return device_.has(sycl::aspect::fp64); }
  const sycl::device& device() const { return device_; }
  const sycl::context& context() const { return context_; }

  // In-order queues: kernels of different ones run at the same time.
  sycl::queue& queue(std::size_t index);

  // Source text to SPIR-V by the compiler inside libsycl-jit; `kernel` is the name of any kernel.
  std::string compile(const std::string& source, const std::vector<std::string>& options,
                      const std::string& kernel) const;

 private:
  sycl::device device_;
  sycl::context context_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<sycl::queue>> queues_;
};

// Memory that host and device see at the same address.
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
  Program(std::shared_ptr<Device> device, const std::string& spirv);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  const std::shared_ptr<Device>& device() const { return device_; }
  sycl::kernel kernel(const std::string& name);

 private:
  void build(const std::string& spirv);

  std::shared_ptr<Device> device_;
  cl_program program_ = nullptr;
  std::mutex mutex_;
  std::map<std::string, sycl::kernel> kernels_;
};

using Argument = std::variant<std::shared_ptr<Memory>, int32_t, float>;

// One launch: n_groups of n_items work items each, or a single task where n_items is 0.
struct Launch {
  std::string kernel;
  int64_t n_groups;
  int64_t n_items;
  std::vector<Argument> arguments;
};

// Launches to run again and again: one after the other, or all at the same time, joined by pipes.
class Sequence {
 public:
  Sequence(std::shared_ptr<Program> program, std::vector<Launch> launches, bool concurrent);
  void run();

 private:
  std::shared_ptr<Program> program_;
  std::vector<Launch> launches_;
  std::vector<sycl::kernel> kernels_;
  bool concurrent_;
};

}  // namespace accel::sycl_backend
