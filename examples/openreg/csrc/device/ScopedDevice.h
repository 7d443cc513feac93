#pragma once

#include "device/Device.h"

namespace openreg::device {

// Makes a device current until the end of the block, for SDK calls that use the current device. The destructor must not throw, because it
// also runs during an exception.
class ScopedDevice {
 public:
  explicit ScopedDevice(int index) : previous_(current()) {
    if (index != previous_) {
      setCurrent(index);
      changed_ = true;
    }
  }
  ~ScopedDevice() {
    if (changed_) {
      uncheckedSetCurrent(previous_);
    }
  }
  ScopedDevice(const ScopedDevice&) = delete;
  ScopedDevice& operator=(const ScopedDevice&) = delete;

 private:
  int previous_;
  bool changed_ = false;
};

}  // namespace openreg::device
