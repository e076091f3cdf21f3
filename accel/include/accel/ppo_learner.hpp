// Proximal policy optimisation for two small networks: gradient and optimiser step, apart, so that an
// all-reduce fits between them.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

#include "accel/mlp.hpp"

namespace accel {

struct PpoOptions {
  bool gaussian;  // else categorical
  double clip;
  double entropy_coefficient;
  double max_gradient_norm;  // of each network on its own
  std::array<double, 2> learning_rates;  // actor, critic
  double beta1, beta2, epsilon;          // Adam
};

// Words of the accumulators behind the gradient. The first four are pairs: a coarse and a fine part.
enum class Word : int {
  policy_loss = 0, squared_error = 2, entropy = 4, kl = 6,
  n_clipped = 8, n_rows, n_chunks,
  actor_magnitude, critic_magnitude,  // sum over chunks of the largest |gradient|
  actor_overflow, critic_overflow, non_finite, count
};
constexpr int kWords = static_cast<int>(Word::count);

enum class Outcome { applied, recompute, non_finite };

struct PpoStep {
  Outcome outcome;
  std::array<double, 2> gradient_norms;
  double policy_loss, value_loss, entropy, kl, clip_fraction;
  int64_t n_rows, n_overflow_chunks, n_non_finite_chunks;
};

struct PpoState {
  std::vector<float> parameters, first_moment, second_moment;
  std::array<int64_t, 2> counters;  // steps, steps skipped for a non-finite gradient
  std::array<int32_t, 2> exponents;
};

struct BatchView {
  const float* observations;  // (n_rows, n_observations)
  const float* actions;       // (n_rows, n_action_columns)
  const float* advantages;    // (n_rows)
  const float* value_targets; // (n_rows)
  const float* old_log;       // (n_rows) log-probabilities when acting; null: under the parameters now
  int64_t n_rows;
};

class PpoLearner {
 public:
  PpoLearner(const Network& actor, const Network& critic, const PpoOptions& options,
             const Kernels& kernels);

  const Network& actor() const { return networks_[0]; }
  int64_t n_parameters() const { return networks_[0].n_weights + networks_[1].n_weights; }
  int64_t n_accumulators() const { return n_parameters() + kWords; }
  int n_observations() const { return n_observations_; }
  int n_action_columns() const { return options_.gaussian ? n_actions_ : 1; }
  int n_actions() const { return n_actions_; }
  bool gaussian() const { return options_.gaussian; }
  int64_t batch_rows() const { return n_rows_; }
  const Kernels& kernels() const { return *kernels_; }

  int64_t n_steps() const { return state_.counters[0]; }
  int64_t n_skipped() const { return state_.counters[1]; }
  PpoState state() const;
  void load_state(const PpoState& state);
  void load_parameters(const float* flat);
  const float* parameters() const { return state_.parameters.data(); }

  void load_batch(const BatchView& batch);
  void log_probabilities(const float* observations, const float* actions, int64_t n_rows, float* out);
  void values(const float* observations, int64_t n_rows, float* out);
  void gradient(const int64_t* rows, const int64_t* chunk_offsets, int64_t n_chunks,
                int64_t n_minibatch, int64_t* accumulators);
  PpoStep apply(const int64_t* accumulators, double rate_factor);

  std::mutex& mutex() const { return mutex_; }

 private:
  struct ChunkSums {
    int64_t n_rows;
    double policy_loss, squared_error, entropy, kl, n_clipped;
  };

  void lay_out_block();
  void pack(bool for_backward);
  void gather(const int64_t* rows, int n_rows);
  void policy_distribution();
  int64_t add_chunks(const int64_t* rows, const int64_t* chunk_offsets, int64_t chunk,
                     int64_t n_chunks);
  void add_large_chunk(const int64_t* rows, int64_t n_rows);
  void add_block(const int64_t* rows, int n_rows, const Segment* segments, int n_segments);
  void actor_block(const Segment* segments, int n_segments);
  void critic_block(const Segment* segments, int n_segments);
  void flush(int64_t* accumulators);
  void add_gradients(int network, int64_t* accumulators) const;
  static void add_statistics(const ChunkSums& sums, int64_t* words);
  PpoStep statistics(const int64_t* words) const;
  bool settle_exponent(int network, const int64_t* words);
  void adam(int network, const int64_t* sum, double norm, double rate_factor);
  int64_t offset(int network) const { return network == 0 ? 0 : networks_[0].n_weights; }
  double unit(int network) const;

  std::array<Network, 2> networks_;
  PpoOptions options_;
  const Kernels* kernels_;
  int n_observations_, n_actions_;
  std::array<Mlp, 2> mlps_;
  PpoState state_;
  bool packed_forward_ = false, packed_backward_ = false;

  std::vector<float> observations_, actions_, advantages_, value_targets_, old_log_;
  int64_t n_rows_ = 0;

  int stride_;  // rows of a block, padded
  Aligned<float> columns_;  // holds every array of the block
  float* value_target_;     // (stride)
  float* value_;            // (stride), then its gradient
  PpoBlock block_{};
  std::array<ChunkSums, kMaxSets> sums_{};
  int n_sets_ = 0;  // chunks whose gradients and sums wait to be added up
  mutable std::mutex mutex_;
};

}  // namespace accel
