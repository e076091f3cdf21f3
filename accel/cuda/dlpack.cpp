#include "dlpack.hpp"

#include <map>
#include <mutex>

namespace accel {
namespace cuda {
namespace {

size_t rounded_up(size_t n) {
  size_t size = 256;
  while (size < n) size *= 2;
  return size;
}

class Pool {
 public:
  std::unique_ptr<Storage> take(int device, size_t size) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto& free = free_[{device, size}];
    if (free.empty()) return nullptr;
    std::unique_ptr<Storage> storage = std::move(free.back());
    free.pop_back();
    return storage;
  }
  void give_back(int device, std::unique_ptr<Storage> storage) {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_[{device, storage->size()}].push_back(std::move(storage));
  }
  void trim() {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_.clear();
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, size_t>, std::vector<std::unique_ptr<Storage>>> free_;
};

// Never destroyed: arrays may come back when CUDA is gone already.
Pool& pool() {
  static Pool* const only = new Pool;
  return *only;
}

std::unique_ptr<Storage> make_storage(int device, size_t size) {
  if (auto storage = pool().take(device, size)) return storage;
  try {
    return std::make_unique<Storage>(size);
  } catch (const std::runtime_error&) {
    pool().trim();  // and what it held may be enough
    return std::make_unique<Storage>(size);
  }
}

template <class Managed>
struct Lending {
  Managed managed;
  std::shared_ptr<Lent> array;
  cudaStream_t stream;
  bool is_ordered;

  static void end(Managed* managed) {
    const std::unique_ptr<Lending> lending(static_cast<Lending*>(managed->context));
    if (!lending->is_ordered) {
      cudaDeviceSynchronize();
      return;
    }
    try {
      lending->array->storage->add_use(lending->stream);
    } catch (const std::exception&) {
      cudaDeviceSynchronize();  // the stream is gone; without a device there is nothing to wait for
    }
  }
};

DlTensor describe(Lent& array) {
  return {array.storage->data(), {kDlCuda, array.device}, int32_t(array.shape.size()), array.type,
          array.shape.data(), nullptr, 0};
}

template <class Managed>
Lending<Managed>* begin_lending(const std::shared_ptr<Lent>& array, cudaStream_t stream,
                                bool is_ordered) {
  if (is_ordered) array->ready->hold_back(stream);
  auto lending = std::make_unique<Lending<Managed>>();
  lending->managed.context = lending.get();
  lending->managed.deleter = &Lending<Managed>::end;
  lending->managed.tensor = describe(*array);
  lending->array = array;
  lending->stream = stream;
  lending->is_ordered = is_ordered;
  return lending.release();
}

}  // namespace

void Storage::add_use(cudaStream_t stream) {
  auto use = std::make_unique<Event>();
  use->record(stream);
  uses_.push_back(std::move(use));
}

void Storage::wait_for_uses(cudaStream_t stream) {
  for (const auto& use : uses_) use->hold_back(stream);
  uses_.clear();
}

std::shared_ptr<Storage> take_storage(int device, size_t n, cudaStream_t stream) {
  std::unique_ptr<Storage> storage = make_storage(device, rounded_up(n));
  storage->wait_for_uses(stream);
  return {storage.release(), [device](Storage* given_back) {
            pool().give_back(device, std::unique_ptr<Storage>(given_back));
          }};
}

DlManaged* lend(const std::shared_ptr<Lent>& array, cudaStream_t stream, bool is_ordered) {
  return &begin_lending<DlManaged>(array, stream, is_ordered)->managed;
}

DlManagedVersioned* lend_versioned(const std::shared_ptr<Lent>& array, cudaStream_t stream,
                                   bool is_ordered) {
  auto* const lending = begin_lending<DlManagedVersioned>(array, stream, is_ordered);
  lending->managed.version = {1, 0};
  lending->managed.flags = 0;
  return &lending->managed;
}

}  // namespace cuda
}  // namespace accel
