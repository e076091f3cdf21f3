// The optimiser's half of PpoLearner: every rank does it with the same sums and gets the same bits.
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "accel/ppo_learner.hpp"
#include "accel/fixed_point.hpp"

namespace accel {
namespace {

// Bits of a positive integer.
int bit_length(int64_t x) { return x == 0 ? 0 : 64 - __builtin_clzll(static_cast<uint64_t>(x)); }

int within_range(int exponent) {
  return std::clamp(exponent, kLowestExponent, kHighestExponent);
}

}  // namespace

double PpoLearner::unit(int network) const {
  return std::ldexp(1.0, -state_.exponents[size_t(network)]);
}

PpoStep PpoLearner::statistics(const int64_t* words) const {
  const int64_t n_chunks = word(words, Word::n_chunks), n_rows = word(words, Word::n_rows);
  if (n_rows < 1)
    throw std::invalid_argument("accumulators must hold at least one row, got " +
                                std::to_string(n_rows));
  if (n_chunks > kMaxChunks)
    throw std::invalid_argument("accumulators may hold at most " + std::to_string(kMaxChunks) +
                                " chunks, got " + std::to_string(n_chunks) +
                                "; cut the minibatch into fewer");
  PpoStep step{};
  const double n = double(n_rows);
  step.policy_loss = read_pair(words, Word::policy_loss) / n;
  step.value_loss = 0.5 * read_pair(words, Word::squared_error) / n;
  step.entropy = read_pair(words, Word::entropy) / n;
  step.kl = read_pair(words, Word::kl) / n;
  step.clip_fraction = double(word(words, Word::n_clipped)) / n;
  step.n_rows = n_rows;
  step.n_overflow_chunks = word(words, Word::actor_overflow) + word(words, Word::critic_overflow);
  step.n_non_finite_chunks = word(words, Word::non_finite);
  return step;
}

// A coarser unit after an overflow, a finer one where the gradient has too few bits. False: the sums
// are no use, compute them again. What follows an overflow has bits enough, so this ends.
bool PpoLearner::settle_exponent(int network, const int64_t* words) {
  int32_t& exponent = state_.exponents[size_t(network)];
  if (word(words, kOverflow[network]) > 0) {
    exponent = within_range(exponent - kOverflowStep);
    return false;
  }
  const int bits = bit_length(word(words, kMagnitude[network]));
  if (bits == 0 || bits >= kLeastBits || exponent == kHighestExponent) return true;
  exponent = within_range(exponent + kTargetBits - bits);
  return false;
}

void PpoLearner::adam(int network, const int64_t* sum, double norm, double rate_factor) {
  const double step = double(state_.counters[0]);
  const double correction1 = 1.0 - std::pow(options_.beta1, step);
  const double correction2 = 1.0 - std::pow(options_.beta2, step);
  const double factor = std::min(1.0, options_.max_gradient_norm / (norm + 1e-6));
  const int64_t at = offset(network);
  kernels_->adam({networks_[size_t(network)].n_weights, sum, state_.parameters.data() + at,
                  state_.first_moment.data() + at, state_.second_moment.data() + at, unit(network),
                  float(factor), float(options_.beta2), float(1.0 - options_.beta1),
                  float(1.0 - options_.beta2),
                  float(rate_factor * options_.learning_rates[size_t(network)] / correction1),
                  float(std::sqrt(correction2)), float(options_.epsilon)});
}

PpoStep PpoLearner::apply(const int64_t* accumulators, double rate_factor) {
  const int64_t* words = accumulators + n_parameters();
  PpoStep step = statistics(words);
  if (step.n_non_finite_chunks > 0) {
    state_.counters[1] += 1;
    step.outcome = Outcome::non_finite;
    return step;
  }
  for (int i = 0; i < 2; ++i)
    step.gradient_norms[size_t(i)] = std::sqrt(kernels_->squared_norm(
        accumulators + offset(i), networks_[size_t(i)].n_weights, unit(i)));
  const bool settled[2] = {settle_exponent(0, words), settle_exponent(1, words)};
  if (!settled[0] || !settled[1]) {
    step.outcome = Outcome::recompute;
    return step;
  }
  state_.counters[0] += 1;
  for (int i = 0; i < 2; ++i) {
    adam(i, accumulators + offset(i), step.gradient_norms[size_t(i)], rate_factor);
    const int bits = bit_length(word(words, kMagnitude[i]));
    int32_t& exponent = state_.exponents[size_t(i)];
    if (bits > 0) exponent = within_range(exponent + kTargetBits - bits);
  }
  packed_forward_ = packed_backward_ = false;
  step.outcome = Outcome::applied;
  return step;
}

}  // namespace accel
