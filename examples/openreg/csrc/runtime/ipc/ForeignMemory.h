#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <string>

namespace openreg {

// Allocations that this process shares with other processes, by their handles.

// The handle of the device allocation that starts at `base`.
std::string exportAllocation(void* base);

// The memory of a handle. It is opened once for all users, and closed when the last user releases it. A handle that this
// process created refers to its own memory.
class ForeignMemory {
 public:
  // Raises an error if the memory belongs to another device.
  ForeignMemory(c10::DeviceIndex device, std::string handle);
  ~ForeignMemory();  // may wait for the device
  ForeignMemory(const ForeignMemory&) = delete;
  ForeignMemory& operator=(const ForeignMemory&) = delete;

  // Returns the address of `nbytes` bytes at an offset. Raises an error if they exceed the allocation, because the numbers
  // come from a message that may have been altered.
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
