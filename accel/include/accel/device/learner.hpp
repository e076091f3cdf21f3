// The off-policy learner of a device as the bindings see it: arrays of the host, checked before.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accel/layers.hpp"
#include "accel/portable/learner.hpp"

namespace accel {
namespace device {

struct LearnerOptions {
  portable::LearnerNumbers numbers;
  float initial_temperature = 1;
  int64_t interval = 1;  // steps between changes of the targets, and of TD3's actor
  int n_pipelines = 1;
};

struct HostBatch {
  const float *observations, *actions, *rewards, *next_observations, *discounts, *weights;
  const int64_t* rows;  // (n,) or null
  int64_t n, first_row;
};

struct LearnerState {
  std::vector<float> parameters, targets, first_moment, second_moment;
  std::vector<int64_t> counters;
};

struct StepMeasures {
  portable::Outcome outcome;
  std::vector<float> td_errors;
  bool applied() const {
    for (int32_t failed : outcome.failed)
      if (failed != 0) return false;
    return true;
  }
};

class Learner {
 public:
  virtual ~Learner() = default;
  virtual std::string device() const = 0;
  virtual const Network& actor() const = 0;
  virtual const Network& critic() const = 0;
  virtual portable::Algorithm algorithm() const = 0;
  virtual int64_t n_parameters() const = 0;
  virtual int64_t n_targets() const = 0;
  virtual int64_t n_steps() = 0;
  virtual int64_t n_skipped() = 0;
  virtual int n_observations() const = 0;
  virtual int n_actions() const = 0;  // columns of an action; DQN: actions to choose from

  virtual StepMeasures learn(const HostBatch& batch) = 0;
  virtual std::vector<float> critic_gradient(const HostBatch& batch) = 0;
  virtual void apply_critic(const float* gradient) = 0;
  // On `observations` (n_batch_rows, n_observations), null: the batch's.
  virtual std::vector<float> actor_gradient(const float* observations) = 0;
  virtual int64_t n_batch_rows() = 0;
  virtual int64_t n_actor_gradient() = 0;  // numbers that apply_actor takes next, 0: no step is due
  virtual StepMeasures apply_actor(const float* gradient) = 0;

  virtual LearnerState state() = 0;
  virtual void load_state(const LearnerState& state) = 0;
  virtual void load_parameters(const float* flat, const float* targets) = 0;
};

}  // namespace device
}  // namespace accel
