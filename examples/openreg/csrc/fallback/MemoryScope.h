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

// The dispatch keys that PyTorch has handled before a kernel runs. Operators that the kernel calls must skip them.
inline constexpr c10::DispatchKeySet kAboveKernels = c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;

// The same for a program's kernel. The operators that it calls count what they write: nobody else tells autograd of it.
inline constexpr c10::DispatchKeySet kAboveProgramKernels = c10::autograd_dispatch_keyset | c10::autocast_dispatch_keyset;

// While a scope is alive, this thread's requests to PyTorch's CPU allocator are served by the device's caching allocator with
// kernel addresses, and operators that the thread calls run below autograd and autocast. A CPU kernel can therefore run on
// device memory and allocate its result there.
class DeviceMemoryScope {
 public:
  explicit DeviceMemoryScope(c10::DeviceIndex device);
  ~DeviceMemoryScope();
  DeviceMemoryScope(const DeviceMemoryScope&) = delete;
  DeviceMemoryScope& operator=(const DeviceMemoryScope&) = delete;

  c10::DataPtr allocate(size_t nbytes);

  // Releases and returns the block of a kernel address that was allocated in this scope; nullptr for other addresses.
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

// While this is alive, CPU tensors that this thread creates are in host memory, even within a DeviceMemoryScope. Operators
// that the thread calls skip the dispatch keys in `excluded`.
class HostMemoryScope {
 public:
  explicit HostMemoryScope(c10::DispatchKeySet excluded = kAboveKernels);
  ~HostMemoryScope();
  HostMemoryScope(const HostMemoryScope&) = delete;
  HostMemoryScope& operator=(const HostMemoryScope&) = delete;

 private:
  DeviceMemoryScope* outer_;
  c10::impl::ExcludeDispatchKeyGuard excluded_;
};

// The allocator of CPU tensors in this process: PyTorch's own allocator, unless a DeviceMemoryScope redirects it.
c10::Allocator& cpuAllocator();

// If `data` was allocated within a scope, replaces it by the device's DataPtr of the same memory and returns true.
bool retag(c10::DataPtr& data, c10::DeviceIndex device);

}  // namespace openreg::fallback
