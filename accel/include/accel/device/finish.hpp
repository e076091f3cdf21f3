// The end of an object on a device.
#pragma once

namespace accel {
namespace device {

// Waits for what the device still does with memory that is about to go. What fails here, or would wait
// for ever (a forked process), has been or will be reported by a call.
template <class Machine>
void finish(Machine& machine) noexcept {
  try {
    machine.use();
    machine.wait();
  } catch (...) {
  }
}

}  // namespace device
}  // namespace accel
