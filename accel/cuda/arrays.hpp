// Arrays of the device in Python calls: what comes in through __dlpack__, what goes out with it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "accel/numpy.hpp"
#include "dlpack.hpp"

namespace accel {
namespace cuda {

// One call on arrays of the device. Its work is ordered behind what each array's owner started, and
// the caller's stream behind the call's work, so that the caller may change or read the arrays next.
class DeviceCall {
 public:
  // `caller`: a cudaStream_t as an integer, None: the default stream
  DeviceCall(int device, cudaStream_t stream, const py::object& caller);

  // Pointer to a contiguous array of T on the call's device.
  template <class T>
  const T* take(const py::object& array, const char* field, const std::vector<int64_t>& shape) {
    return static_cast<const T*>(take(array, field, dl_type<T>(), shape));
  }
  const void* take(const py::object& array, const char* field, DlType type,
                   const std::vector<int64_t>& shape);
  int64_t length(const py::object& array, const char* field) const;

  template <class T>
  T* give(std::vector<int64_t> shape) {
    return static_cast<T*>(give(dl_type<T>(), std::move(shape)));
  }
  void* give(DlType type, std::vector<int64_t> shape);

  // After the launches: the arrays given, in the order of `give`.
  std::vector<py::object> end(Keeper& keeper);

 private:
  std::unique_ptr<Borrowed> borrow(const py::object& array, const char* field) const;

  int device_;
  cudaStream_t stream_, caller_;
  Loans loans_;
  std::vector<std::shared_ptr<Lent>> given_;
};

void bind_arrays(py::module_& m);

}  // namespace cuda
}  // namespace accel
