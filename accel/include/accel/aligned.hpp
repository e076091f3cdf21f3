// Zeroed memory on a cache line, given back at the end of its scope.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace accel {

constexpr size_t kCacheLine = 64;  // [bytes]

template <class T>
class Aligned {
 public:
  Aligned() = default;
  explicit Aligned(size_t n) { resize(n); }

  // Contents are zero afterwards. Slack of four lines: vector loads may run past the end.
  void resize(size_t n) {
    const size_t bytes = (n * sizeof(T) + 5 * kCacheLine - 1) / kCacheLine * kCacheLine;
    void* p = std::aligned_alloc(kCacheLine, bytes);
    if (p == nullptr) throw std::bad_alloc();
    std::memset(p, 0, bytes);
    data_.reset(static_cast<T*>(p));
    size_ = n;
  }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return data_.get()[i]; }
  const T& operator[](size_t i) const { return data_.get()[i]; }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T[], Free> data_;
  size_t size_ = 0;
};

inline int round_up(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

constexpr int kLineFloats = kCacheLine / sizeof(float);

// Floats from one row to the next. An odd number of cache lines, so that successive rows fall into
// different sets of the cache.
inline int64_t odd_stride(int width) {
  return int64_t{kLineFloats} * ((round_up(width, kLineFloats) / kLineFloats) | 1);
}

}  // namespace accel
