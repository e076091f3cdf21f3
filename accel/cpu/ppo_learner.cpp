#include "accel/ppo_learner.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "accel/fixed_point.hpp"

namespace accel {
namespace {

// The standard deviation's layers hand the loss what goes into their sigmoid.
std::vector<bool> deferred_layers(const Network& actor, const PpoOptions& options) {
  std::vector<bool> deferred(actor.layers.size(), false);
  if (!options.gaussian) return deferred;
  if (actor.n_outputs % 2 != 0)
    throw std::invalid_argument(
        "actor_layers: a gaussian policy must have an even number of output columns (means, then "
        "standard deviations), got " + std::to_string(actor.n_outputs));
  const int n_actions = actor.n_outputs / 2;
  for (size_t l = 0; l < actor.layers.size(); ++l) {
    const Layer& layer = actor.layers[l];
    if (layer.output < 0 || layer.output + layer.n_out <= n_actions) continue;
    const bool is_read = std::any_of(actor.layers.begin(), actor.layers.end(),
                                     [&](const Layer& r) { return r.source == int(l); });
    if (layer.output < n_actions || layer.activation != Activation::sigmoid || is_read)
      throw std::invalid_argument(
          "actor_layers[" + std::to_string(l) + "]: a layer that makes standard deviations must end "
          "in a sigmoid (3), make nothing else and feed no layer, got activation " +
          std::to_string(int(layer.activation)) + ", output " + std::to_string(layer.output));
    deferred[l] = true;
  }
  return deferred;
}

}  // namespace

PpoLearner::PpoLearner(const Network& actor, const Network& critic, const PpoOptions& options,
                       const Kernels& kernels)
    : networks_{actor, critic},
      options_(options),
      kernels_(&kernels),
      n_observations_(std::max(actor.n_inputs, critic.n_inputs)),
      n_actions_(options.gaussian ? actor.n_outputs / 2 : actor.n_outputs),
      mlps_{Mlp(actor, kernels, deferred_layers(actor, options)), Mlp(critic, kernels)} {
  if (critic.n_outputs != 1)
    throw std::invalid_argument("critic_layers must make one output column, got " +
                                std::to_string(critic.n_outputs));
  if (actor.n_inputs != critic.n_inputs)
    throw std::invalid_argument("critic_layers must read as many inputs as actor_layers (" +
                                std::to_string(actor.n_inputs) + "), got " +
                                std::to_string(critic.n_inputs));
  const size_t n = size_t(n_parameters());
  state_ = {std::vector<float>(n), std::vector<float>(n), std::vector<float>(n), {0, 0},
            {kFirstExponent, kFirstExponent}};
  lay_out_block();
}

// One stretch of memory for all columns of a block.
void PpoLearner::lay_out_block() {
  const int n_outputs = networks_[0].n_outputs;
  stride_ = round_up(mlps_[0].max_rows(), kRowPadding);
  columns_.resize(size_t(3 * n_outputs + n_action_columns() + 9) * size_t(stride_));
  float* next = columns_.data();
  const auto take = [&](int n_columns) { return std::exchange(next, next + n_columns * stride_); };
  block_.outputs = take(n_outputs);
  block_.d_log_probability = take(n_outputs);
  block_.d_entropy = take(n_outputs);
  block_.actions = take(n_action_columns());
  for (float** column :
       {&block_.advantages, &block_.old_log, &block_.log_probability, &block_.entropy, &block_.loss,
        &block_.kl, &block_.clipped, &value_target_, &value_})
    *column = take(1);
  block_.n_actions = n_actions_;
  block_.clip = float(options_.clip);
  block_.entropy_coefficient = float(options_.entropy_coefficient);
}

PpoState PpoLearner::state() const { return state_; }

void PpoLearner::load_state(const PpoState& state) {
  state_ = state;
  packed_forward_ = packed_backward_ = false;
}

void PpoLearner::load_parameters(const float* flat) {
  std::memcpy(state_.parameters.data(), flat, state_.parameters.size() * sizeof(float));
  packed_forward_ = packed_backward_ = false;
}

void PpoLearner::pack(bool for_backward) {
  if (packed_forward_ && (packed_backward_ || !for_backward)) return;
  for (int i = 0; i < 2; ++i) mlps_[i].pack(parameters() + offset(i), for_backward);
  packed_forward_ = true;
  packed_backward_ = for_backward;
}

// Rows of the batch become the block on which the networks work.
void PpoLearner::gather(const int64_t* rows, int n_rows) {
  const int n_columns = n_action_columns();
  block_.n_rows = n_rows;
  block_.stride = round_up(n_rows, kRowPadding);
  for (int i = 0; i < n_rows; ++i) {
    const size_t row = size_t(rows[i]);
    const float* observation = observations_.data() + row * size_t(n_observations_);
    for (Mlp& mlp : mlps_) mlp.set_input(i, observation);
    for (int j = 0; j < n_columns; ++j)
      block_.actions[j * block_.stride + i] = actions_[row * size_t(n_columns) + size_t(j)];
    block_.advantages[i] = advantages_[row];
    block_.old_log[i] = old_log_[row];
    value_target_[i] = value_targets_[row];
  }
}

void PpoLearner::policy_distribution() {
  mlps_[0].forward(block_.n_rows);
  mlps_[0].read_outputs(block_.n_rows, block_.outputs, block_.stride);
  (options_.gaussian ? kernels_->gaussian : kernels_->categorical)(block_);
}

void PpoLearner::log_probabilities(const float* observations, const float* actions, int64_t n_rows,
                                   float* out) {
  pack(false);
  const int n_columns = n_action_columns();
  for (int64_t row = 0; row < n_rows; row += mlps_[0].max_rows()) {
    const int n = int(std::min<int64_t>(n_rows - row, mlps_[0].max_rows()));
    block_.n_rows = n;
    block_.stride = round_up(n, kRowPadding);
    for (int i = 0; i < n; ++i) {
      mlps_[0].set_input(i, observations + (row + i) * n_observations_);
      for (int j = 0; j < n_columns; ++j)
        block_.actions[j * block_.stride + i] = actions[(row + i) * n_columns + j];
    }
    policy_distribution();
    std::memcpy(out + row, block_.log_probability, size_t(n) * sizeof(float));
  }
}

void PpoLearner::load_batch(const BatchView& batch) {
  const size_t n = size_t(batch.n_rows);
  observations_.assign(batch.observations, batch.observations + n * size_t(n_observations_));
  actions_.assign(batch.actions, batch.actions + n * size_t(n_action_columns()));
  advantages_.assign(batch.advantages, batch.advantages + n);
  value_targets_.assign(batch.value_targets, batch.value_targets + n);
  old_log_.resize(n);
  n_rows_ = batch.n_rows;
  if (batch.old_log != nullptr)
    std::copy(batch.old_log, batch.old_log + n, old_log_.begin());
  else
    log_probabilities(observations_.data(), actions_.data(), n_rows_, old_log_.data());
}

void PpoLearner::values(const float* observations, int64_t n_rows, float* out) {
  pack(false);
  mlps_[1].infer(observations, n_rows, out);
}

void PpoLearner::gradient(const int64_t* rows, const int64_t* chunk_offsets, int64_t n_chunks,
                          int64_t n_minibatch, int64_t* accumulators) {
  std::memset(accumulators, 0, size_t(n_accumulators()) * sizeof(int64_t));
  pack(true);
  block_.scale = float(1.0 / double(n_minibatch));
  for (int64_t chunk = 0; chunk < n_chunks;) {
    chunk = add_chunks(rows, chunk_offsets, chunk, n_chunks);
    if (n_sets_ == kMaxSets) flush(accumulators);
  }
  flush(accumulators);
}

// Takes as many whole chunks as fit one block, or one larger chunk; returns the next one.
int64_t PpoLearner::add_chunks(const int64_t* rows, const int64_t* chunk_offsets, int64_t chunk,
                               int64_t n_chunks) {
  const int64_t begin = chunk_offsets[chunk];
  const int max_rows = mlps_[0].max_rows();
  if (chunk_offsets[chunk + 1] - begin > max_rows) {
    add_large_chunk(rows + begin, chunk_offsets[chunk + 1] - begin);
    return chunk + 1;
  }
  Segment segments[kMaxSets];
  int n_segments = 0, n_rows = 0;
  for (; chunk < n_chunks && chunk_offsets[chunk + 1] - begin <= max_rows && n_sets_ < kMaxSets;
       ++chunk) {
    const int n = int(chunk_offsets[chunk + 1] - chunk_offsets[chunk]);
    if (n == 0) continue;
    sums_[size_t(n_sets_)] = {};
    segments[n_segments++] = {n_rows, n, n_sets_++, true};
    n_rows += n;
  }
  if (n_segments > 0) add_block(rows + begin, n_rows, segments, n_segments);
  return chunk;
}

void PpoLearner::add_large_chunk(const int64_t* rows, int64_t n_rows) {
  sums_[size_t(n_sets_)] = {};
  const int64_t n_blocks = (n_rows + mlps_[0].max_rows() - 1) / mlps_[0].max_rows();
  for (int64_t block = 0; block < n_blocks; ++block) {
    const int n = int((n_rows + n_blocks - block - 1) / (n_blocks - block));
    const Segment segment{0, n, n_sets_, block == 0};
    add_block(rows, n, &segment, 1);
    rows += n;
    n_rows -= n;
  }
  ++n_sets_;
}

void PpoLearner::add_block(const int64_t* rows, int n_rows, const Segment* segments,
                           int n_segments) {
  gather(rows, n_rows);
  actor_block(segments, n_segments);
  critic_block(segments, n_segments);
}

void PpoLearner::actor_block(const Segment* segments, int n_segments) {
  policy_distribution();
  kernels_->surrogate(block_, networks_[0].n_outputs);
  mlps_[0].backward(block_.n_rows, block_.d_log_probability, block_.stride, segments, n_segments);
  for (const Segment* s = segments; s != segments + n_segments; ++s) {
    ChunkSums& sums = sums_[size_t(s->set)];
    sums.n_rows += s->n_rows;
    for (int i = s->row; i < s->row + s->n_rows; ++i) {
      sums.policy_loss += double(block_.loss[i]);
      sums.entropy += double(block_.entropy[i]);
      sums.kl += double(block_.kl[i]);
      sums.n_clipped += double(block_.clipped[i]);
    }
  }
}

// loss = mean (V - target)^2 / 2
void PpoLearner::critic_block(const Segment* segments, int n_segments) {
  mlps_[1].forward(block_.n_rows);
  mlps_[1].read_outputs(block_.n_rows, value_, stride_);
  for (const Segment* s = segments; s != segments + n_segments; ++s)
    for (int i = s->row; i < s->row + s->n_rows; ++i) {
      const float error = value_[i] - value_target_[i];
      value_[i] = error * block_.scale;
      sums_[size_t(s->set)].squared_error += double(error) * double(error);
    }
  mlps_[1].backward(block_.n_rows, value_, stride_, segments, n_segments);
}

void PpoLearner::flush(int64_t* accumulators) {
  if (n_sets_ > 0)
    for (int network = 0; network < 2; ++network) add_gradients(network, accumulators);
  for (int set = 0; set < n_sets_; ++set)
    add_statistics(sums_[size_t(set)], accumulators + n_parameters());
  n_sets_ = 0;
}

void PpoLearner::add_gradients(int network, int64_t* accumulators) const {
  const Mlp& mlp = mlps_[size_t(network)];
  const int exponent = state_.exponents[size_t(network)];
  const double scale = std::ldexp(1.0, exponent);
  float largest[kMaxSets];
  kernels_->accumulate_fixed({mlp.gradient(), mlp.set_stride(), n_sets_,
                              networks_[size_t(network)].n_weights, scale,
                              accumulators + offset(network), largest});
  int64_t* words = accumulators + n_parameters();
  for (int set = 0; set < n_sets_; ++set) {
    const double scaled = double(largest[set]) * scale;
    if (scaled < kRange)
      word(words, kMagnitude[network]) += int64_t(scaled);
    else if (std::isfinite(largest[set]) && exponent > kLowestExponent)
      word(words, kOverflow[network]) += 1;
    else
      word(words, Word::non_finite) += 1;
  }
}

void PpoLearner::add_statistics(const ChunkSums& sums, int64_t* words) {
  word(words, Word::n_chunks) += 1;
  word(words, Word::n_rows) += sums.n_rows;
  word(words, Word::n_clipped) += int64_t(sums.n_clipped);
  const bool finite = add_pair(words, Word::policy_loss, sums.policy_loss) &&
                      add_pair(words, Word::squared_error, sums.squared_error) &&
                      add_pair(words, Word::entropy, sums.entropy) &&
                      add_pair(words, Word::kl, sums.kl);
  if (!finite) word(words, Word::non_finite) += 1;
}

}  // namespace accel
