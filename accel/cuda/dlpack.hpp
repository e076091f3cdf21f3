// Arrays of the device handed over without a copy: the structs of DLPack 1.0 and its predecessor, as
// its specification lays them out, what we borrow from others and what we lend.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "runtime.hpp"

namespace accel {
namespace cuda {

constexpr int32_t kDlCuda = 2;                         // device type
constexpr uint8_t kDlInt = 0, kDlFloat = 2;            // type codes
constexpr const char* kDlName = "dltensor";
constexpr const char* kDlUsedName = "used_dltensor";
constexpr const char* kDlVersionedName = "dltensor_versioned";
constexpr const char* kDlVersionedUsedName = "used_dltensor_versioned";

struct DlDevice {
  int32_t type, id;
};

struct DlType {
  uint8_t code, bits;
  uint16_t lanes;
};

struct DlTensor {
  void* data;
  DlDevice device;
  int32_t n_dimensions;
  DlType type;
  int64_t* shape;
  int64_t* strides;  // in elements; null: row by row
  uint64_t byte_offset;
};

struct DlManaged {
  DlTensor tensor;
  void* context;
  void (*deleter)(DlManaged*);
};

struct DlVersion {
  uint32_t major, minor;
};

struct DlManagedVersioned {
  DlVersion version;
  void* context;
  void (*deleter)(DlManagedVersioned*);
  uint64_t flags;
  DlTensor tensor;
};

template <class T>
constexpr DlType dl_type() {
  return {T(0.5) == T(0) ? kDlInt : kDlFloat, uint8_t(8 * sizeof(T)), 1};
}

// Another library's tensor while we use it.
class Borrowed {
 public:
  explicit Borrowed(DlManaged* managed) : old_(managed) {}
  explicit Borrowed(DlManagedVersioned* managed) : versioned_(managed) {}
  ~Borrowed() {
    if (old_ != nullptr && old_->deleter != nullptr) old_->deleter(old_);
    if (versioned_ != nullptr && versioned_->deleter != nullptr) versioned_->deleter(versioned_);
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  const DlTensor& tensor() const { return old_ != nullptr ? old_->tensor : versioned_->tensor; }
  const void* data() const {
    return static_cast<const char*>(tensor().data) + tensor().byte_offset;
  }

 private:
  DlManaged* old_ = nullptr;
  DlManagedVersioned* versioned_ = nullptr;
};

using Loans = std::vector<std::unique_ptr<Borrowed>>;

// Keeps what was borrowed until the work that reads it is done.
class Keeper {
 public:
  ~Keeper() {
    for (auto& kept : kept_)
      if (!kept.done->has_passed()) cudaDeviceSynchronize();
  }
  void keep(Loans loans, cudaStream_t stream) {
    while (!kept_.empty() && kept_.front().done->has_passed()) kept_.pop_front();
    kept_.push_back({std::make_unique<Event>(), std::move(loans)});
    kept_.back().done->record(stream);
  }

 private:
  struct Kept {
    std::unique_ptr<Event> done;
    Loans loans;
  };
  std::deque<Kept> kept_;
};

// Device memory from a pool: making it anew each time would stop the device. Who gets it next waits
// for those who had it.
class Storage {
 public:
  explicit Storage(size_t n) : memory_(n) {}
  char* data() const { return memory_.data(); }
  size_t size() const { return memory_.size(); }
  void add_use(cudaStream_t stream);         // all that was started on this stream until now
  void wait_for_uses(cudaStream_t stream);   // this stream does

 private:
  Memory<DeviceMemory> memory_;
  std::vector<std::unique_ptr<Event>> uses_;
};

// Of at least n bytes on the current device, for work on this stream.
std::shared_ptr<Storage> take_storage(int device, size_t n, cudaStream_t stream);

// An array that we lend. It is whole once its event has passed.
struct Lent {
  std::shared_ptr<Storage> storage;
  std::unique_ptr<Event> ready;
  DlType type;
  int device;
  std::vector<int64_t> shape;
};

// Tensors for a consumer that works on `stream`, or that looks after the order itself.
DlManaged* lend(const std::shared_ptr<Lent>& array, cudaStream_t stream, bool is_ordered);
DlManagedVersioned* lend_versioned(const std::shared_ptr<Lent>& array, cudaStream_t stream,
                                   bool is_ordered);

}  // namespace cuda
}  // namespace accel
