// One CPU variant: compiled with its own flags and ACCEL_VARIANT, see CMakeLists.txt.
#include "accel/kernels.hpp"

#include "activations.hpp"
#include "float_optimiser.hpp"
#include "gemm.hpp"
#include "off_policy_loss.hpp"
#include "optimiser.hpp"
#include "philox.hpp"
#include "ppo_loss.hpp"

#define ACCEL_TEXT_(x) #x
#define ACCEL_TEXT(x) ACCEL_TEXT_(x)

namespace accel {
namespace ACCEL_VARIANT {

template <Vec (*function)(Vec)>
void apply_to_all(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; i += kLanes) {
    float lanes[kLanes] = {};
    const int m = n - i < kLanes ? static_cast<int>(n - i) : kLanes;
    for (int j = 0; j < m; ++j) lanes[j] = x[i + j];
    store(lanes, function(load(lanes)));
    for (int j = 0; j < m; ++j) y[i + j] = lanes[j];
  }
}

static void elementary(int function, const float* x, float* y, int64_t n) {
  switch (static_cast<Elementary>(function)) {
    case Elementary::exp: return apply_to_all<exp>(x, y, n);
    case Elementary::log: return apply_to_all<log>(x, y, n);
    case Elementary::log1p_unit: return apply_to_all<log1p_unit>(x, y, n);
    case Elementary::tanh: return apply_to_all<tanh>(x, y, n);
    default: return apply_to_all<sigmoid>(x, y, n);
  }
}

// As many independent sums as a tile of `gemm` has.
static double multiply_adds(int64_t n) {
  constexpr int sums = 6 * kPanelVectors;
  Vec sum[sums];
  for (int i = 0; i < sums; ++i) sum[i] = splat(static_cast<float>(i));
  const Vec x = splat(0.999f), y = splat(0.001f);
  for (int64_t k = 0; k < n; ++k) {
#pragma GCC unroll 24
    for (int i = 0; i < sums; ++i) sum[i] = fma(sum[i], x, y);
  }
  Vec total{};
  for (int i = 0; i < sums; ++i) total += sum[i];
  volatile float keep = 0.0f;  // or the compiler would see that nobody asks
  for (int i = 0; i < kLanes; ++i) keep = total[i];
  (void)keep;
  return 2.0 * sums * kLanes * static_cast<double>(n);
}

extern const Kernels kernels;
const Kernels kernels = {
    ACCEL_TEXT(ACCEL_VARIANT), kLanes,     kPanelVectors * kLanes, gemm,      narrow_forward,
    sum_rows,                  activate,   differentiate,          gaussian,  categorical,
    surrogate,                 accumulate_fixed, squared_norm,     adam,
    {sum_sets, float_adam, move_towards, transpose_panel, normals, dqn_loss, critic_loss,
     smooth_actions, squash, policy_loss, squash_gradient},
    multiply_adds,             elementary};

}  // namespace ACCEL_VARIANT
}  // namespace accel
