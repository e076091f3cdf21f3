#include "arrays.hpp"

#include <numeric>
#include <optional>

namespace accel {
namespace cuda {
namespace {

using Capsule = py::object;

[[noreturn]] void refuse(const std::string& text) { throw std::invalid_argument(text); }

std::string describe(DlType type) {
  const char* kind = type.code == kDlFloat ? "float" : type.code == kDlInt ? "int" : "type-";
  return kind + std::to_string(type.bits);
}

std::string describe(const DlTensor& tensor) {
  return describe(tensor.type) + " " +
         describe_shape(std::vector<int64_t>(tensor.shape, tensor.shape + tensor.n_dimensions));
}

bool is_contiguous(const DlTensor& tensor) {
  if (tensor.strides == nullptr) return true;
  int64_t step = 1;
  for (int i = tensor.n_dimensions - 1; i >= 0; --i) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != step) return false;
    step *= tensor.shape[i];
  }
  return true;
}

bool fits(const DlTensor& tensor, DlType type, const std::vector<int64_t>& shape) {
  bool right = tensor.type.code == type.code && tensor.type.bits == type.bits &&
               tensor.type.lanes == 1 && tensor.n_dimensions == int32_t(shape.size());
  for (size_t i = 0; right && i < shape.size(); ++i)
    right = shape[i] == kAnyLength || shape[i] == tensor.shape[i];
  return right;
}

// Takes the tensor out of its capsule, which then no longer gives it back.
std::unique_ptr<Borrowed> open(const Capsule& capsule, const char* field) {
  PyObject* const p = capsule.ptr();
  if (PyCapsule_IsValid(p, kDlVersionedName)) {
    void* managed = PyCapsule_GetPointer(p, kDlVersionedName);
    auto* const versioned = static_cast<DlManagedVersioned*>(managed);
    PyCapsule_SetName(p, kDlVersionedUsedName);
    auto borrowed = std::make_unique<Borrowed>(versioned);
    if (versioned->version.major != 1)
      refuse(std::string(field) + " must come by DLPack 1, got version " +
             std::to_string(versioned->version.major));
    return borrowed;
  }
  if (!PyCapsule_IsValid(p, kDlName))
    refuse(std::string(field) + " must come in a DLPack capsule that is not used yet");
  auto* const managed = static_cast<DlManaged*>(PyCapsule_GetPointer(p, kDlName));
  PyCapsule_SetName(p, kDlUsedName);
  return std::make_unique<Borrowed>(managed);
}

// Streams 1 and 2 are DLPack's names of the default streams, which CUDA knows by the same numbers.
cudaStream_t to_stream(const py::object& stream) {
  if (stream.is_none()) return cudaStreamLegacy;
  return reinterpret_cast<cudaStream_t>(stream.cast<uintptr_t>());
}

template <class Managed>
void give_back(PyObject* capsule, const char* name) {
  if (!PyCapsule_IsValid(capsule, name)) return;  // its consumer gives it back
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  managed->deleter(managed);
}

// DLPack's protocol of a producer: stream -1 means that the consumer looks after the order.
py::capsule to_dlpack(const std::shared_ptr<Lent>& array, const py::object& stream,
                      const std::optional<std::pair<uint32_t, uint32_t>>& max_version,
                      const py::object& dl_device, const py::object& copy) {
  if (!copy.is_none() && copy.cast<bool>()) throw py::buffer_error("copies are not offered");
  if (!dl_device.is_none() &&
      dl_device.cast<std::pair<int, int>>() != std::pair<int, int>(kDlCuda, array->device))
    throw py::buffer_error("the array can't leave its device");
  const bool is_ordered = stream.is_none() || stream.cast<int64_t>() != -1;
  if (!stream.is_none() && stream.cast<int64_t>() == 0)
    refuse("stream must not be 0, which is ambiguous: 1 is the default stream");
  const cudaStream_t consumer = is_ordered ? to_stream(stream) : cudaStreamLegacy;
  if (max_version && max_version->first >= 1)
    return py::reinterpret_steal<py::capsule>(
        PyCapsule_New(lend_versioned(array, consumer, is_ordered), kDlVersionedName,
                      [](PyObject* c) { give_back<DlManagedVersioned>(c, kDlVersionedName); }));
  return py::reinterpret_steal<py::capsule>(
      PyCapsule_New(lend(array, consumer, is_ordered), kDlName,
                    [](PyObject* c) { give_back<DlManaged>(c, kDlName); }));
}

}  // namespace

DeviceCall::DeviceCall(int device, cudaStream_t stream, const py::object& caller)
    : device_(device), stream_(stream), caller_(to_stream(caller)) {
  ACCEL_CUDA(cudaSetDevice(device));
}

std::unique_ptr<Borrowed> DeviceCall::borrow(const py::object& array, const char* field) const {
  if (!py::hasattr(array, "__dlpack__"))
    refuse(std::string(field) + " must be an array of the device with __dlpack__, got " +
           py::str(py::type::of(array)).cast<std::string>());
  const auto device = array.attr("__dlpack_device__")().cast<std::pair<int, int>>();
  if (device != std::pair<int, int>(kDlCuda, device_))
    refuse(std::string(field) + " must lie on CUDA device " + std::to_string(device_) +
           ", got device " + std::to_string(device.second) + " of type " +
           std::to_string(device.first));
  const auto stream = reinterpret_cast<uintptr_t>(stream_);
  try {
    return open(array.attr("__dlpack__")(py::arg("stream") = stream,
                                         py::arg("max_version") = py::make_tuple(1, 0)),
                field);
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError)) throw;  // older producers know no versions
    return open(array.attr("__dlpack__")(py::arg("stream") = stream), field);
  }
}

const void* DeviceCall::take(const py::object& array, const char* field, DlType type,
                             const std::vector<int64_t>& shape) {
  std::unique_ptr<Borrowed> borrowed = borrow(array, field);
  const DlTensor& tensor = borrowed->tensor();
  if (!fits(tensor, type, shape) || !is_contiguous(tensor))
    refuse(std::string(field) + " must be a contiguous array of " + describe(type) + " " +
           describe_shape(shape) + ", got " + describe(tensor) +
           (is_contiguous(tensor) ? "" : ", not contiguous"));
  loans_.push_back(std::move(borrowed));
  return loans_.back()->data();
}

int64_t DeviceCall::length(const py::object& array, const char* field) const {
  try {
    return int64_t(py::len(array));
  } catch (const py::error_already_set&) {
    refuse(std::string(field) + " must be an array of at least one dimension");
  }
}

void* DeviceCall::give(DlType type, std::vector<int64_t> shape) {
  auto lent = std::make_shared<Lent>();
  const int64_t n = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  lent->storage = take_storage(device_, size_t(n) * type.bits / 8, stream_);
  lent->ready = std::make_unique<Event>();
  lent->type = type;
  lent->device = device_;
  lent->shape = std::move(shape);
  given_.push_back(lent);
  return lent->storage->data();
}

std::vector<py::object> DeviceCall::end(Keeper& keeper) {
  Event done;
  done.record(stream_);
  done.hold_back(caller_);
  keeper.keep(std::move(loans_), stream_);
  std::vector<py::object> arrays;
  for (const std::shared_ptr<Lent>& lent : given_) {
    lent->ready->record(stream_);
    lent->storage->add_use(stream_);
    arrays.push_back(py::cast(lent));
  }
  return arrays;
}

void bind_arrays(py::module_& m) {
  using py::arg;
  py::class_<Lent, std::shared_ptr<Lent>>(m, "DeviceArray")
      .def_property_readonly("shape", [](const Lent& a) { return py::tuple(py::cast(a.shape)); })
      .def("__len__", [](const Lent& a) { return a.shape.empty() ? 0 : a.shape[0]; })
      .def("__dlpack_device__",
           [](const Lent& a) { return std::pair<int, int>(kDlCuda, a.device); })
      .def("__dlpack__", &to_dlpack, py::kw_only(), arg("stream") = py::none(),
           arg("max_version") = py::none(), arg("dl_device") = py::none(),
           arg("copy") = py::none());
}

}  // namespace cuda
}  // namespace accel
