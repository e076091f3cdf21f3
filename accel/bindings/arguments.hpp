// Checks that several bindings share, and what each of them registers.
#pragma once

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>

#include "accel/layers.hpp"
#include "accel/numpy.hpp"

namespace accel {

void bind_networks(py::module_& m);
void bind_ppo(py::module_& m);
void bind_off_policy(py::module_& m);
void bind_sum_tree(py::module_& m);
void bind_portable_off_policy(py::module_& m);
void bind_portable_sum_tree(py::module_& m);

inline Network read_network(const py::array& layers, const char* field) {
  const int32_t* table = checked<int32_t>(layers, field, {kAnyLength, kLayerColumns});
  return make_network(table, layers.shape(0), field);
}

[[noreturn]] inline void refuse(const std::string& text) { throw std::invalid_argument(text); }

inline void require(bool holds, const char* field, const char* rule, double value) {
  if (!holds)
    refuse(std::string(field) + " must be " + rule + ", got " +
           py::str(py::float_(value)).cast<std::string>());
}

inline std::string shortened(const py::str& text) {
  constexpr size_t kMost = 80;
  const std::string whole = text.cast<std::string>();
  return whole.size() <= kMost ? whole : whole.substr(0, kMost) + "...";
}

inline py::array array_of(const py::handle& value, const char* field) {
  if (!py::isinstance<py::array>(value))
    refuse(std::string(field) + " must be an array, got " + shortened(py::repr(value)));
  return py::reinterpret_borrow<py::array>(value);
}

// Copies one array (n,) of a state that Python gives.
template <class T, class Values>
void read_entry(const py::object& state, const char* key, int64_t n, Values& to) {
  const std::string field = std::string("state['") + key + "']";
  if (!state.contains(key)) refuse("state must hold '" + std::string(key) + "', got no such entry");
  const py::array entry = array_of(state[key], field.c_str());
  const T* data = checked<T>(entry, field.c_str(), {n});
  std::copy(data, data + n, to.begin());
}

template <class Values>
void require_counts(const Values& counters) {
  for (int64_t count : counters)
    require(count >= 0, "state['counters']", "at least 0", double(count));
}

// Lets other threads of Python run. A thread that comes back while the interpreter ends is ended by
// Python 3.11 through an exception that no destructor may let out: it sleeps until the process has gone.
class GilReleased {
 public:
  GilReleased() : state_(PyEval_SaveThread()) {}
  ~GilReleased() {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {
      for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
    }
  }
  GilReleased(const GilReleased&) = delete;

 private:
  PyThreadState* state_;
};

template <class Function>
auto without_gil(Function function) {
  const GilReleased released;
  return function();
}

// Two threads of Python take turns on one learner.
template <class Learner, class Function>
auto locked(const Learner& learner, Function function) {
  const GilReleased released;
  std::lock_guard<std::mutex> lock(learner.mutex());
  return function();
}

}  // namespace accel
