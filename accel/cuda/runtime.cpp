#include "runtime.hpp"

namespace accel {
namespace cuda {

std::vector<std::string> device_names() {
  int n = 0;
  if (cudaGetDeviceCount(&n) != cudaSuccess) {
    cudaGetLastError();
    return {};
  }
  std::vector<std::string> names;
  for (int i = 0; i < n; ++i) {
    cudaDeviceProp properties;
    ACCEL_CUDA(cudaGetDeviceProperties(&properties, i));
    names.emplace_back(properties.name);
  }
  return names;
}

std::string why_no_device() {
  int version = 0, n = 0;
  if (cudaDriverGetVersion(&version) == cudaSuccess && version == 0)
    return "CUDA finds no device: no NVIDIA driver is installed";
  const cudaError_t status = cudaGetDeviceCount(&n);
  if (status == cudaSuccess) return n > 0 ? "" : "CUDA finds no device";
  cudaGetLastError();
  return std::string("CUDA finds no device: ") + cudaGetErrorString(status);
}

int find_device(const std::string& device) {
  const std::vector<std::string> names = device_names();
  if (names.empty()) throw std::runtime_error(why_no_device());
  if (device.empty()) return 0;
  for (size_t i = 0; i < names.size(); ++i)
    if (const std::string number = std::to_string(i);
        device == number || device == number + ": " + names[i] || device == "cuda:" + number)
      return int(i);
  std::string known;
  for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
  throw std::invalid_argument("device must be the number or name of one of: " + known + "; got '" +
                              device + "'");
}

}  // namespace cuda
}  // namespace accel
