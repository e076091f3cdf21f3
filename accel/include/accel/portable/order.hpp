// In which order the host emulation visits what runs at once on a device. A body that needs one order
// misses a barrier or hides a race, so that results then differ between seeds.
#pragma once

#include <cstdint>

namespace accel {
namespace portable {

// Device compilers that emulate lanes by a loop need no other order.
struct Forward {
  template <class Function>
  void visit(int n, Function function) const {
    for (int i = 0; i < n; ++i) function(i);
  }
};

// Seed 0: forward; 1: backward; beyond: i -> (a i + b) mod n, another a and b at each visit.
class Shuffled {
 public:
  explicit Shuffled(uint64_t seed = 0) : seed_(seed), state_(seed * 0x9e3779b97f4a7c15u + 1) {}

  template <class Function>
  void visit(int n, Function function) {
    if (seed_ == 0) return Forward{}.visit(n, function);
    const int64_t step = seed_ == 1 ? n - 1 : coprime(n);
    int64_t at = seed_ == 1 ? n - 1 : int64_t(draw() % uint64_t(n > 0 ? n : 1));
    for (int i = 0; i < n; ++i, at = (at + step) % n) function(int(at));
  }

 private:
  uint64_t draw() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return state_ >> 33;
  }
  static int64_t common_divisor(int64_t a, int64_t b) {
    while (b != 0) {
      const int64_t rest = a % b;
      a = b;
      b = rest;
    }
    return a;
  }
  int64_t coprime(int64_t n) {
    if (n < 3) return 1;
    int64_t step = 1 + int64_t(draw() % uint64_t(n - 1));
    while (common_divisor(step, n) != 1) step = step % (n - 1) + 1;
    return step;
  }

  uint64_t seed_, state_;
};

}  // namespace portable
}  // namespace accel
