#pragma once

#include <string>

namespace openreg {

// Allocations that this process shares with others, by the handles that name them.

// The handle of the device allocation that starts at `base`.
std::string exportAllocation(void* base);

// The memory behind a handle. It is opened once however many use it, and closed when the last of them is done. A handle that
// this process made itself gives its own memory.
class ForeignMemory {
 public:
  explicit ForeignMemory(std::string handle);
  ~ForeignMemory();  // may wait for the device
  ForeignMemory(const ForeignMemory&) = delete;
  ForeignMemory& operator=(const ForeignMemory&) = delete;

  void* base() const {
    return base_;
  }
  const std::string& handle() const {
    return handle_;
  }

 private:
  const std::string handle_;
  void* base_ = nullptr;
  bool opened_ = false;
};

}  // namespace openreg
