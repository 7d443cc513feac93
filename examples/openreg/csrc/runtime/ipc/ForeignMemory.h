#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <string>

namespace openreg {

// Allocations that this process shares with others, by the handles that name them.

// The handle of the device allocation that starts at `base`.
std::string exportAllocation(void* base);

// The memory behind a handle. It is opened once however many use it, and closed when the last of them is done. A handle that
// this process made itself gives its own memory.
class ForeignMemory {
 public:
  // Raises if the memory is of another device.
  ForeignMemory(c10::DeviceIndex device, std::string handle);
  ~ForeignMemory();  // may wait for the device
  ForeignMemory(const ForeignMemory&) = delete;
  ForeignMemory& operator=(const ForeignMemory&) = delete;

  // The address at an offset from which on there are `nbytes`. Raises if the allocation does not hold them: they are numbers out
  // of a message.
  void* at(size_t offset, size_t nbytes) const;
  const std::string& handle() const {
    return handle_;
  }

 private:
  explicit ForeignMemory(std::string handle);

  const std::string handle_;
  void* base_ = nullptr;
  size_t size_ = 0;
  bool opened_ = false;
};

}  // namespace openreg
