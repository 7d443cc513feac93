#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/SmallVector.h>

#include <utility>

#include "device/Export.h"

namespace openreg {
struct Block;
}

namespace openreg::fallback {

// What PyTorch has done already when a kernel runs, and operators that the kernel calls must not do again.
inline constexpr c10::DispatchKeySet kAboveKernels = c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;

// While a scope is alive, memory that this thread asks PyTorch's CPU allocator for comes from the device's caching
// allocator, addressed as kernels see it, and operators called from within run below autograd and autocast. This is
// what lets a CPU kernel run on device memory and allocate its result there.
class DeviceMemoryScope {
 public:
  explicit DeviceMemoryScope(c10::DeviceIndex device);
  ~DeviceMemoryScope();
  DeviceMemoryScope(const DeviceMemoryScope&) = delete;
  DeviceMemoryScope& operator=(const DeviceMemoryScope&) = delete;

  c10::DataPtr allocate(size_t nbytes);

  // The block behind a kernel address that was allocated in this scope, which forgets it; nullptr if it was not.
  Block* take(const void* address);

  DeviceMemoryScope* outer() const {
    return outer_;
  }

 private:
  c10::DeviceIndex device_;
  DeviceMemoryScope* outer_;
  c10::impl::ExcludeDispatchKeyGuard excluded_;
  c10::SmallVector<std::pair<void*, Block*>, 6> allocated_;
};

// While this is alive, CPU tensors that this thread makes live in host memory again, within a DeviceMemoryScope too; operators run below
// autograd and autocast as in a DeviceMemoryScope.
class HostMemoryScope {
 public:
  HostMemoryScope();
  ~HostMemoryScope();
  HostMemoryScope(const HostMemoryScope&) = delete;
  HostMemoryScope& operator=(const HostMemoryScope&) = delete;

 private:
  DeviceMemoryScope* outer_;
  c10::impl::ExcludeDispatchKeyGuard excluded_;
};

// The allocator of CPU tensors in this process: PyTorch's own, which an active DeviceMemoryScope redirects.
c10::Allocator& cpuAllocator();

// If `data` was allocated within a scope, turns it into the device's DataPtr of the same memory and returns true.
bool retag(c10::DataPtr& data, c10::DeviceIndex device);

}  // namespace openreg::fallback
