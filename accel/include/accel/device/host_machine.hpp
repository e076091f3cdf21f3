// The host in the place of a device. A machine is what the drivers in this folder ask for:
//
//     allocate<T>(n)              zeroed device memory, given back at the end of its scope
//     Mirror                      bytes that host and device both hold; host() and device() address them
//     push(mirror, from, to)      copy bytes to the device, in the order of the launches
//     wait_for_push()             until the host may write into mirrors again
//     pull(mirror, from, to)      copy bytes back and wait for them
//     put, get                    copy arrays of any size and wait
//     zero(p, n)                  in the order of the launches
//     use(), wait()               make the device current; wait for all that was launched
//     launch(body, n_blocks)      run a kernel body on a grid
//     replay(key, record)         do launches that are the same each time a key comes
//     forget()                    what was recorded for replays: memory moves
//
// Bodies run block by block. Seed 0: what comes between two barriers by all threads at once; others:
// each thread on its own from barrier to barrier, in the order that the seed gives (portable/order.hpp).
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "accel/device/fibers.hpp"
#include "accel/portable/block.hpp"

namespace accel {
namespace device {

class HostMachine {
 public:
  template <class T>
  class Buffer {
   public:
    explicit Buffer(size_t n = 0) : values_(n) {}
    T* data() { return values_.data(); }
    size_t size() const { return values_.size(); }

   private:
    std::vector<T> values_;
  };

  class Mirror {
   public:
    explicit Mirror(size_t n = 0) : bytes_(n) {}
    char* host() { return bytes_.data(); }
    char* device() { return bytes_.data(); }
    size_t size() const { return bytes_.size(); }

   private:
    std::vector<char> bytes_;
  };

  explicit HostMachine(uint64_t seed = 0)
      : seed_(seed), order_(seed), shared_(portable::kSharedFloats) {}

  std::string name() const { return "host"; }
  void use() {}
  void wait() {}

  template <class T>
  Buffer<T> allocate(size_t n) { return Buffer<T>(n); }
  Mirror mirror(size_t n) { return Mirror(n); }
  void push(Mirror&, size_t, size_t) {}
  void pull(Mirror&, size_t, size_t) {}
  void wait_for_push() {}

  template <class T>
  void put(T* device, const T* host, size_t n) { std::memcpy(device, host, n * sizeof(T)); }
  template <class T>
  void get(T* host, const T* device, size_t n) { std::memcpy(host, device, n * sizeof(T)); }
  template <class T>
  void zero(T* device, size_t n) { std::memset(device, 0, n * sizeof(T)); }

  template <class Body>
  void launch(const Body& body, int n_blocks) {
    order_.visit(n_blocks, [&](int index) {
      if (seed_ != 0) return run_apart(body, index, n_blocks);
      portable::HostBlock<Body::kThreads> block(index, n_blocks, shared_.data(), order_);
      body(block);
    });
  }

  template <class Record>
  void replay(const std::string&, Record record) { record(); }
  void forget() {}

 private:
  template <class Body>
  void run_apart(const Body& body, int index, int n_blocks) {
    const auto run = [&](int thread) {
      FiberBlock<Body::kThreads> block(thread, index, n_blocks, shared_.data(), fibers_, order_);
      body(block);
    };
    fibers_.run(Body::kThreads, run, order_);
  }

  uint64_t seed_;
  portable::Shuffled order_;
  Fibers fibers_;
  std::vector<float> shared_;
};

}  // namespace device
}  // namespace accel
