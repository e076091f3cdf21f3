// Choice of the CPU variant at run time.
#include <stdexcept>
#include <string>

#include "accel/kernels.hpp"
#include "accel/tree_kernels.hpp"

namespace accel {

#define ACCEL_DECLARE(variant)      \
  namespace variant {               \
  extern const Kernels kernels;     \
  extern const TreeKernels trees[]; \
  }
#if defined(__x86_64__)
ACCEL_DECLARE(avx512)
ACCEL_DECLARE(avx2)
#endif
ACCEL_DECLARE(baseline)

namespace {

struct Available {
  const Kernels* list[4] = {};
  Available() {
    int n = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
      list[n++] = &avx512::kernels;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
      list[n++] = &avx2::kernels;
#endif
    list[n++] = &baseline::kernels;
  }
};

}  // namespace

const Kernels* const* available_kernels() {
  static const Available available;
  return available.list;
}

const Kernels& select_kernels(const char* name) {
  const std::string wanted = name;
  std::string names;
  for (auto k = available_kernels(); *k != nullptr; ++k) {
    if (wanted.empty() || wanted == (*k)->name) return **k;
    names += (names.empty() ? "" : ", ") + std::string((*k)->name);
  }
  throw std::invalid_argument("variant must be one this processor runs (" + names + "), got '" +
                              wanted + "'; leave it empty for the best one");
}

const TreeKernels& tree_kernels([[maybe_unused]] const Kernels& kernels, int log_fanout) {
#if defined(__x86_64__)
  if (&kernels == &avx512::kernels) return avx512::trees[log_fanout];
  if (&kernels == &avx2::kernels) return avx2::trees[log_fanout];
#endif
  return baseline::trees[log_fanout];
}

}  // namespace accel
