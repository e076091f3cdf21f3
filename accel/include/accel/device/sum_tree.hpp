// Host side of a device's sum tree: memory, transfers, which kernel bodies run in which order.
//
// One mirror holds what a call takes and gives: targets or values, status, least priority, rows,
// priorities, weights. A call is one copy there, a few launches, one copy back.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "accel/device/finish.hpp"
#include "accel/device/tree.hpp"
#include "accel/portable/sum_tree.hpp"

namespace accel {
namespace device {

template <class Machine, class Real>
class DeviceTree : public virtual Tree {
 public:
  DeviceTree(Machine machine, int64_t capacity, int log_fanout)
      : machine_(std::move(machine)),
        shape_(portable::make_tree_shape(capacity, log_fanout)),
        nodes_(machine_.template allocate<Real>(size_t(shape_.first[shape_.depth + 1]))),
        stamps_(machine_.template allocate<int32_t>(size_t(capacity))),
        largest_(machine_.template allocate<portable::Bits<Real>>(1)) {
    reserve(1);
  }
  ~DeviceTree() override { finish(machine_); }

  int64_t capacity() const override { return shape_.capacity; }
  int fanout() const override { return 1 << shape_.log_fanout; }
  int depth() const override { return shape_.depth; }
  std::string device() const override { return machine_.name(); }
  // So that the sum of all is finite.
  double most() const override {
    return double(std::numeric_limits<Real>::max()) / double(shape_.capacity);
  }

  double total() override {
    const Lock lock(*this);
    return double(read(nodes_.data()));
  }
  double largest() override {
    const Lock lock(*this);
    const Real so_far = portable::from_bits<Real>(read(largest_.data()));
    return so_far > 0 ? double(so_far) : 1.0;
  }

  void sample(const double* targets, int64_t n, int64_t* indices, double* priorities) override {
    const Lock lock(*this);
    draw(targets, n, false, 0);
    take(indices, rows(), n);
    take(priorities, found(), n);
  }

  void sample_stratified(const double* uniforms, int64_t n, double beta, int64_t* indices,
                         float* weights) override {
    const Lock lock(*this);
    draw(uniforms, n, true, beta);
    take(indices, rows(), n);
    take(weights, this->weights(), n);
  }

  void retrieve(const int64_t* indices, int64_t n, double* priorities) override {
    const Lock lock(*this);
    begin(n);
    take(host(rows()), indices, n);
    push(rows().end);
    launch_retrieve(at(rows()), n, at(found()));
    pull(found().end);
    take(priorities, found(), n);
  }

  void change(const int64_t* indices, const double* values, int64_t n, bool add) override {
    if (n == 0) return;
    const Lock lock(*this);
    begin(n);
    take(host(rows()), indices, n);
    for (int64_t j = 0; j < n; ++j)
      host(values_())[j] = add ? Real(values[j]) : to_priority<Real>(values[j]);
    push(rows().end);
    launch_change({tree(), at(rows()), at(values_()), stamps_.data(), n, Real(most()),
                   next_stamp(n), add});
    pull(status().end);
    refuse_bad(indices, values, add);
  }

  void insert(int64_t start, int64_t n, const double* priority) override {
    if (n == 0) return;
    const Lock lock(*this);
    begin(1);
    push(status().end);
    const Real value = priority == nullptr ? Real(-1) : to_priority<Real>(*priority);
    const int64_t before_end = portable::least(n, shape_.capacity - start);
    fill(start, before_end, value);
    if (n > before_end) fill(0, n - before_end, value);
    machine_.wait();
  }

  void rebuild() override {
    const Lock lock(*this);
    recompute_all();
    machine_.wait();
  }

  void priorities(double* out) override {
    const Lock lock(*this);
    std::vector<Real> values(size_t(shape_.capacity));
    machine_.get(values.data(), leaves(), values.size());
    for (size_t i = 0; i < values.size(); ++i) out[i] = double(values[i]);
  }

  void load(const double* priorities, double largest) override {
    std::vector<Real> values(size_t(shape_.capacity));
    for (size_t i = 0; i < values.size(); ++i) values[i] = to_priority<Real>(priorities[i]);
    const auto bits = portable::to_bits(to_priority<Real>(largest));
    const Lock lock(*this);
    machine_.put(leaves(), values.data(), values.size());
    machine_.put(largest_.data(), &bits, 1);
    recompute_all();
    machine_.wait();
  }

 protected:
  // Calls take turns. Where the machine has a current device, it is this tree's one meanwhile.
  class Lock {
   public:
    explicit Lock(DeviceTree& tree) : guard_(tree.mutex_) { tree.machine_.use(); }

   private:
    std::lock_guard<std::mutex> guard_;
  };

  template <class T>
  struct Part {
    size_t begin, end;  // bytes of the mirror
  };

  Part<Real> values_() const { return {0, room_ * sizeof(Real)}; }
  Part<portable::TreeStatus> status() const { return behind<portable::TreeStatus>(values_(), 1); }
  Part<portable::Bits<Real>> least_priority() const {
    return behind<portable::Bits<Real>>(status(), 1);
  }
  Part<int64_t> rows() const { return behind<int64_t>(least_priority(), room_); }
  Part<Real> found() const { return behind<Real>(rows(), room_); }
  Part<float> weights() const { return behind<float>(found(), room_); }

  template <class T, class Before>
  static Part<T> behind(Part<Before> before, size_t n) {
    const size_t begin = (before.end + 15) / 16 * 16;
    return {begin, begin + n * sizeof(T)};
  }

  template <class T>
  T* host(Part<T> part) { return reinterpret_cast<T*>(mirror_.host() + part.begin); }
  template <class T>
  T* at(Part<T> part) { return reinterpret_cast<T*>(mirror_.device() + part.begin); }

  template <class To, class From>
  void take(To* to, Part<From> part, int64_t n) { take(to, host(part), n); }
  template <class To, class From>
  static void take(To* to, const From* from, int64_t n) {
    for (int64_t i = 0; i < n; ++i) to[i] = To(from[i]);
  }

  void push(size_t end) { machine_.push(mirror_, 0, end); }
  void pull(size_t end) { machine_.pull(mirror_, status().begin, end); }

  template <class T>
  T read(T* device) {
    T value;
    machine_.get(&value, device, 1);
    return value;
  }

  // Room for a call of n rows, in whole powers of two so that it is seldom made anew.
  void reserve(int64_t n) {
    if (size_t(n) <= room_) return;
    const size_t before = room_;
    room_ = 64;
    while (room_ < size_t(n)) room_ *= 2;
    try {
      mirror_ = machine_.mirror(weights().end);
    } catch (...) {
      room_ = before;
      throw;
    }
  }

  void begin(int64_t n) {
    reserve(n);
    *host(status()) = {portable::kNoneBad, 0};
    *host(least_priority()) = portable::to_bits(std::numeric_limits<Real>::infinity());
  }

  portable::Tree<Real> tree() {
    return {shape_, nodes_.data(), largest_.data(), at(status())};
  }
  Real* leaves() { return nodes_.data() + shape_.first[shape_.depth]; }

  // Blocks for n lanes or threads at 256 a block; a grid of many thousand blocks gains nothing.
  static int blocks(int64_t n) {
    return int(portable::clamp_<int64_t>((n + 255) / 256, 1, 2048));
  }

  void draw(const double* targets, int64_t n, bool stratified, double beta) {
    begin(n);
    const double most = double(std::numeric_limits<Real>::max());
    for (int64_t j = 0; j < n; ++j)
      host(values_())[j] = Real(portable::least(targets[j], most));
    push(least_priority().end);
    launch_draw(at(values_()), n, stratified, beta, at(rows()), at(found()), at(weights()));
    pull(stratified ? weights().end : found().end);
    if (host(status())->empty != 0)
      throw std::invalid_argument("the tree must hold a positive priority to sample, all are 0");
  }

  // A device with another way to do these does so.
  virtual void launch_retrieve(const int64_t* indices, int64_t n, Real* priorities) {
    machine_.launch(portable::RetrieveRows<Real>{tree(), indices, priorities, n}, blocks(n));
  }

  virtual void launch_draw(const Real* targets, int64_t n, bool stratified, double beta,
                           int64_t* indices, Real* priorities, float* weights) {
    auto* smallest = at(least_priority());
    machine_.launch(portable::SampleTree<Real>{tree(), targets, indices, priorities,
                                               stratified ? smallest : nullptr, n, stratified},
                    blocks(n << shape_.log_fanout));
    if (stratified)
      machine_.launch(portable::WeighRows<Real>{at(status()), priorities, smallest, weights, n,
                                                Real(beta)},
                      blocks(n));
  }

  virtual void launch_change(const portable::Change<Real>& change) {
    if (change.n << shape_.log_fanout <= kFewLanes) {
      machine_.launch(portable::ChangeRows<Real>{change}, 1);
      return;
    }
    machine_.launch(portable::ClaimRows<Real>{change}, blocks(change.n));
    machine_.launch(portable::CheckRows<Real>{change}, blocks(change.n));
    machine_.launch(portable::WriteRows<Real>{change}, blocks(change.n));
    recompute(change.tree, {change.indices, 0, change.n});
  }

  void recompute(const portable::Tree<Real>& tree, const portable::ChangedRows& rows) {
    for (int level = shape_.depth - 1; level >= 0; --level)
      machine_.launch(portable::RecomputeLevel<Real>{tree, rows, level},
                      blocks(rows.n_nodes(shape_, level) << shape_.log_fanout));
  }

  void recompute_all() {
    begin(1);
    push(status().end);
    recompute(tree(), {nullptr, 0, shape_.capacity});
  }

  virtual void fill(int64_t start, int64_t n, Real value) {
    machine_.launch(portable::FillRows<Real>{tree(), start, n, value}, blocks(n));
    recompute(tree(), {nullptr, start, n});
  }

  // Stamps only grow, so that no call has to clear those of the last.
  int32_t next_stamp(int64_t n) {
    if (stamp_ > std::numeric_limits<int32_t>::max() - n) {
      machine_.zero(stamps_.data(), stamps_.size());
      stamp_ = 1;
    }
    const int32_t first = int32_t(stamp_);
    stamp_ += n;
    return first;
  }

  void refuse_bad(const int64_t* indices, const double* values, bool add) {
    const int64_t j = host(status())->first_bad;
    if (j == portable::kNoneBad) return;
    const std::string where = " for row " + std::to_string(indices[j]) + " at " + std::to_string(j);
    if (add)
      throw std::invalid_argument("priority + deltas must be at least 0 and at most " +
                                  to_text(most()) + ", the delta is " + to_text(values[j]) + where);
    throw std::invalid_argument("priorities must be at least 0 and at most " + to_text(most()) +
                                ", got " + to_text(values[j]) + where);
  }

  static constexpr int64_t kFewLanes = 4096;  // four rounds of a block of 1024

  std::mutex mutex_;
  Machine machine_;
  portable::TreeShape shape_;
  typename Machine::template Buffer<Real> nodes_;
  typename Machine::template Buffer<int32_t> stamps_;
  typename Machine::template Buffer<portable::Bits<Real>> largest_;
  typename Machine::Mirror mirror_;
  size_t room_ = 0;    // rows that the mirror holds
  int64_t stamp_ = 1;  // of the next change
};

}  // namespace device
}  // namespace accel
