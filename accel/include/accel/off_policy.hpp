// DQN, TD3 (DDPG) and SAC for small networks: see accel/interfaces.py for what they compute.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "accel/off_policy_options.hpp"
#include "accel/packed_network.hpp"
#include "accel/thread_team.hpp"

namespace accel {

struct Transitions {
  const float *observations, *actions, *rewards, *next_observations, *discounts, *weights;
  const int64_t* rows;  // which to learn; null: all of them
  int64_t n;            // to learn
};

struct Measured {
  double critic_loss, mean_value, critic_gradient_norm;
  double actor_loss, actor_gradient_norm, entropy, temperature;
  bool applied;
};

enum Counter { kSteps, kSkipped, kCriticSteps, kActorSteps, kTemperatureSteps, kCounters };

struct OffPolicyState {  // in the flat order
  std::vector<float> parameters, targets, first_moment, second_moment;
  std::array<int64_t, kCounters> counters;
};

class OffPolicyLearner {
 public:
  // `actor` is empty for DQN. The networks fit each other, as the bindings check.
  OffPolicyLearner(const OffPolicyOptions& options, const Network& actor, const Network& critic,
                   const Kernels& kernels);

  const OffPolicyOptions& options() const { return options_; }
  int n_observations() const { return n_observations_; }
  int n_action_columns() const { return is(Algorithm::dqn) ? 1 : n_actions_; }
  int n_actions() const { return n_actions_; }
  int64_t n_actor() const { return actor_.network().n_weights; }
  int64_t n_critic() const { return critic_.network().n_weights; }
  int64_t n_parameters() const { return n_actor() + n_critic() + (is(Algorithm::sac) ? 1 : 0); }
  int64_t n_targets() const { return n_critic() + (is(Algorithm::td3) ? n_actor() : 0); }
  int64_t counter(Counter c) const { return counters_[c]; }
  const char* variant() const { return critic_.kernels().name; }

  Measured learn(const Transitions& batch);
  // Absolute errors of the last batch, one a row.
  const std::vector<float>& td_errors() const { return td_errors_; }

  void critic_gradient(const Transitions& batch, int64_t first_row, float* flat);
  void apply_critic(const float* flat);
  // Numbers that `actor_gradient` makes, and `apply_actor` wants; 0: no actor step is due.
  int64_t n_actor_gradient() const;
  // On `observations` (n_batch_rows, n_observations), null: the batch's.
  void actor_gradient(const float* observations, float* flat);
  int64_t n_batch_rows() const { return int64_t(td_errors_.size()); }
  Measured apply_actor(const float* flat);

  OffPolicyState state() const;
  void load_state(const OffPolicyState& state);
  // Null targets become equal to the parameters.
  void load_parameters(const float* flat, const float* targets);

  std::mutex& mutex() const { return mutex_; }

 private:
  enum class Stage { idle, critic_gradient, critic_applied };
  struct Columns {  // of a block of rows, one contiguous array a column
    float *rewards, *discounts, *weights, *actions, *td_errors, *loss, *value;
    float *q, *q_next, *chooser, *d_q;                      // one a column of the critics
    float *policy, *noise, *chosen, *spread, *log_probability;  // of an action
    float *d_chosen, *d_policy;
  };
  struct Sums {
    double loss, value, actor_loss, log_probability;
  };
  struct Pipeline {  // a share of the batch, and what one thread needs to work on it
    int64_t first = 0, n = 0;
    Aligned<float> inputs;  // (n, input_stride) observations, then actions
    Aligned<float> next_inputs;  // (kBlockRows, input_stride)
    std::unique_ptr<NetworkPass> actor, critic;
    Aligned<float> gradient;  // packed: actor, critics
    Aligned<float> memory;
    Columns columns{};
    Sums sums{};
  };
  struct Moments {  // packed parameters and what Adam keeps of them
    Aligned<float> parameters, first, second;
    void resize(int64_t n);
  };

  bool is(Algorithm a) const { return options_.algorithm == a; }
  bool is_due() const { return (counters_[kSteps] + 1) % options_.interval == 0; }
  bool has_actor_step() const { return !is(Algorithm::dqn) && is_due(); }
  void lay_out(Pipeline& p) const;

  // One pipeline's share of a gradient (off_policy_blocks.cpp).
  void critic_part(Pipeline& p);
  void critic_block(Pipeline& p, int64_t begin, int n, bool is_first);
  void gather(Pipeline& p, int64_t begin, int n);
  void next_values(Pipeline& p, int64_t begin, const Rows& next);
  void next_actions(Pipeline& p, int64_t begin, const Rows& next);
  void critic_loss(Pipeline& p, int stride);
  void actor_part(Pipeline& p);
  void actor_block(Pipeline& p, int64_t begin, int n, bool is_first);
  void sample(Pipeline& p, int64_t begin, uint32_t stream, int stride);
  void draw(Pipeline& p, int64_t begin, uint32_t stream, int stride);

  void begin(const Transitions& batch, int64_t first_row);
  void compute_critic_gradient(const Transitions& batch, int64_t first_row);
  void compute_actor_gradient();
  double reduce(const PackedNetwork& network, int64_t offset, int n_sets);
  void step_critic(double norm);
  void restore_critic();
  Measured finish(double norm, double by_log_alpha);
  void step(const PackedNetwork& network, const AdamOptions& options, int64_t n_steps, double norm,
            const float* gradient, Moments& from, Moments& to, float* transposed);
  void step_temperature(double gradient);
  void move_targets();
  void transpose_all();
  float alpha() const;
  Moments& critic() { return critics_[front_]; }
  const Moments& critic() const { return critics_[front_]; }

  OffPolicyOptions options_;
  PackedNetwork actor_, critic_;
  Path actor_path_, critic_path_, policy_path_;  // the last: critics that the actor's loss asks
  int n_observations_, n_actions_, n_critics_;
  int64_t input_stride_;
  mutable std::mutex mutex_;

  Moments actor_moments_;
  // A step of the critics goes from one to the other, so that it can be taken back.
  std::array<Moments, 2> critics_;
  int front_ = 0;
  Aligned<float> actor_target_, critic_target_, actor_transposed_, critic_transposed_;
  float log_alpha_ = 0, log_alpha_first_ = 0, log_alpha_second_ = 0;
  std::array<int64_t, kCounters> counters_{};

  Stage stage_ = Stage::idle;
  bool failed_ = false;
  Transitions batch_{};
  int64_t first_row_ = 0;
  int n_active_ = 0;  // pipelines that have rows
  float scale_ = 0;   // 1 / rows
  Measured measured_{};
  std::vector<float> td_errors_;
  std::vector<double> squares_;  // of the gradient, one sum a stretch
  std::vector<Pipeline> pipelines_;
  ThreadTeam team_;
};

constexpr int kBlockRows = 96;

}  // namespace accel
