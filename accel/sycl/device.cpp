#include "device.hpp"

#include <cstring>
#include <stdexcept>

namespace accel::sycl_backend {
namespace {

namespace extension = sycl::ext::oneapi::experimental;

std::string kind_of(const sycl::device& device) {
  if (device.is_cpu()) return "cpu";
  return device.is_accelerator() ? "fpga_emulator" : "";
}

sycl::device find_device(const std::string& kind) {
  for (const auto& device : sycl::device::get_devices())
    if (kind_of(device) == kind && device.get_backend() == sycl::backend::opencl) return device;
  throw std::runtime_error("no SYCL device of kind " + kind + " was found");
}

[[noreturn]] void fail(const std::string& call, cl_int code, const std::string& text = "") {
  throw std::runtime_error(call + " failed with OpenCL error " + std::to_string(code) +
                           (text.empty() ? "" : ": " + text));
}

std::string build_log(cl_program program, cl_device_id device) {
  std::size_t size = 0;
  clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size);
  std::string log(size, '\0');
  clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr);
  return log;
}

std::string intermediate_language(const sycl::kernel& kernel) {
  cl_kernel native = sycl::get_native<sycl::backend::opencl>(kernel);
  cl_program program = nullptr;
  std::size_t size = 0;
  clGetKernelInfo(native, CL_KERNEL_PROGRAM, sizeof program, &program, nullptr);
  const cl_int code = clGetProgramInfo(program, CL_PROGRAM_IL, 0, nullptr, &size);
  if (code != CL_SUCCESS || size == 0) fail("clGetProgramInfo(CL_PROGRAM_IL)", code);
  std::string spirv(size, '\0');
  clGetProgramInfo(program, CL_PROGRAM_IL, size, spirv.data(), nullptr);
  clReleaseKernel(native);  // get_native retained it
  return spirv;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> list_devices() {
  std::vector<std::pair<std::string, std::string>> found;
  for (const auto& device : sycl::device::get_devices())
    if (!kind_of(device).empty() && device.get_backend() == sycl::backend::opencl)
      found.emplace_back(kind_of(device), device.get_info<sycl::info::device::name>());
  return found;
}

Device::Device(const std::string& kind)
    : kind_(kind), device_(find_device(kind)), context_(device_) {}

std::string Device::compile(const std::string& source, const std::vector<std::string>& options,
                            const std::string& kernel) const {
  std::string log;
  try {
    auto bundle = extension::create_kernel_bundle_from_source(
        context_, extension::source_language::sycl, source);
    auto built = extension::build(
        bundle, extension::properties{extension::save_log(&log), extension::build_options(options)});
    return intermediate_language(built.ext_oneapi_get_kernel(kernel));
  } catch (const sycl::exception& error) {
    throw std::runtime_error(std::string("compiling SYCL source failed: ") + error.what() + "\n" +
                             log);
  }
}

Memory::Memory(std::shared_ptr<Device> device, std::size_t n_bytes)
    : device_(std::move(device)),
      n_bytes_(n_bytes),
      data_(sycl::aligned_alloc_shared(64, n_bytes, device_->device(), device_->context())) {
  if (data_ == nullptr)
    throw std::runtime_error("allocating " + std::to_string(n_bytes) + " bytes on " +
                             device_->name() + " failed");
  std::memset(data_, 0, n_bytes);
}

Memory::~Memory() { sycl::free(data_, device_->context()); }

namespace {

cl_program from_spirv(cl_context context, cl_device_id device, const std::string& spirv) {
  using Create = cl_program(CL_API_CALL*)(cl_context, const void*, std::size_t, cl_int*);
  cl_platform_id platform = nullptr;
  clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, nullptr);
  const auto create = reinterpret_cast<Create>(
      clGetExtensionFunctionAddressForPlatform(platform, "clCreateProgramWithILKHR"));
  if (create == nullptr) throw std::runtime_error("the OpenCL runtime does not take SPIR-V");
  cl_int code = CL_SUCCESS;
  cl_program program = create(context, spirv.data(), spirv.size(), &code);
  if (code != CL_SUCCESS) fail("clCreateProgramWithILKHR", code);
  return program;
}

cl_program from_binary(cl_context context, cl_device_id device, const std::string& binary) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(binary.data());
  const std::size_t size = binary.size();
  cl_int code = CL_SUCCESS;
  cl_program program =
      clCreateProgramWithBinary(context, 1, &device, &size, &bytes, nullptr, &code);
  if (code != CL_SUCCESS) fail("clCreateProgramWithBinary", code);
  return program;
}

}  // namespace

Program::Program(std::shared_ptr<Device> device, const std::string& code, bool is_binary)
    : device_(std::move(device)) {
  device_->require_own_process();
  cl_device_id native = sycl::get_native<sycl::backend::opencl>(device_->device());
  cl_context context = sycl::get_native<sycl::backend::opencl>(device_->context());
  program_ = is_binary ? from_binary(context, native, code) : from_spirv(context, native, code);
  build(native);
}

Program::~Program() {
  kernels_.clear();
  clReleaseProgram(program_);
}

void Program::build(cl_device_id device) {
  const cl_int code = clBuildProgram(program_, 1, &device, "", nullptr, nullptr);
  if (code == CL_SUCCESS) return;
  const std::string log = build_log(program_, device);
  clReleaseProgram(program_);
  fail("clBuildProgram", code, log);
}

std::string Program::binary() const {
  std::size_t size = 0;
  cl_int code = clGetProgramInfo(program_, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr);
  if (code != CL_SUCCESS || size == 0) fail("clGetProgramInfo(CL_PROGRAM_BINARY_SIZES)", code);
  std::string bytes(size, '\0');
  char* to = bytes.data();
  code = clGetProgramInfo(program_, CL_PROGRAM_BINARIES, sizeof to, &to, nullptr);
  if (code != CL_SUCCESS) fail("clGetProgramInfo(CL_PROGRAM_BINARIES)", code);
  return bytes;
}

sycl::kernel Program::kernel(const std::string& name) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = kernels_.find(name);
  if (found != kernels_.end()) return found->second;
  cl_int code = CL_SUCCESS;
  // The prefix is what the compiler gives to free functions that are kernels.
  cl_kernel native = clCreateKernel(program_, ("__sycl_kernel_" + name).c_str(), &code);
  if (code != CL_SUCCESS) fail("clCreateKernel(" + name + ")", code);
  auto kernel = sycl::make_kernel<sycl::backend::opencl>(native, device_->context());
  clReleaseKernel(native);  // make_kernel retained it
  return kernels_.emplace(name, std::move(kernel)).first->second;
}

}  // namespace accel::sycl_backend
