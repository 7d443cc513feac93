#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <string>

#include "device/Export.h"

// The functions of this folder are the seam: the layers above use nothing else of the SDK. These rules hold for all of them, unless a
// function says otherwise.
//
// - Threads: any thread may call any function at any time, several threads at once, also with the same handle.
// - Arguments: an index is one of count() devices. A handle or pointer is not null, and it is destroyed or released after its last use.
//   Sizes are at least one byte, because the layers above skip empty copies and allocations.
// - Current device: it belongs to the calling thread, and a call leaves it as it was. It may be another device than that of the stream,
//   event or pointer that is passed. An SDK that wants the same one gets it by `const ScopedDevice scope(index);` (ScopedDevice.h).
// - Errors: a failure throws, as DEVICE_CHECK of Error.h does. Functions that are noexcept report it by DEVICE_WARN. A function that
//   waits may throw errors of earlier work. An SDK that reports no errors of earlier work needs nothing for it.
// - Blocking: a function that may block begins with `const Waiting waiting;` (Waiting.h), also if it blocks only in rare cases.
// - fork(): in the child of a process that has used the device, only count(), current() and uncheckedSetCurrent() are called; all else is
//   refused before it reaches the seam.
// - Exit: functions are called until the process ends, also by destructors of static objects. So what they use must not be destroyed at
//   exit; keep it in objects that are never deleted.
namespace openreg::device {

struct Properties {
  std::string name;
  size_t total_memory = 0;  // bytes
  size_t allocation_alignment = 0;  // bytes, a power of 2: what the SDK promises of device::allocate's addresses; 1 if it promises nothing
  int multi_processor_count = 1;  // at least 1
  int major = 0;
  int minor = 0;
};

// Starts the SDK. Called before the first use of a device, not while the library loads, and perhaps more than once. Other functions of
// this file may be called before it. Throws the SDK's error if the start fails.
BACKEND_API void initialize();

// Number of devices of this machine. 0 if the driver is missing or broken. `import torch` and programs that never use the device ask it,
// so it must be quick and start no threads. The first answer is kept.
BACKEND_API int count() noexcept;

// The calling thread's current device; 0 in a new thread. An SDK without one: keep a thread_local.
BACKEND_API int current();
BACKEND_API void setCurrent(int index);
BACKEND_API void uncheckedSetCurrent(int index) noexcept;  // destructors call it

// Blocks until all work submitted to this device, on any of its streams, has completed.
BACKEND_API void synchronize(int index);

// Called once for each device.
BACKEND_API Properties properties(int index);

// Free and total memory of a device in bytes. Memory that this process has allocated is not free. The caching allocator sets its limit
// (set_per_process_memory_fraction) by the total. allocate() need not enforce these numbers. If the SDK does not know them, use
// substitutes/MemoryBudget.h, which counts what this process allocates.
struct MemoryInfo {
  size_t free = 0;
  size_t total = 0;
};
BACKEND_API MemoryInfo memoryInfo(int index);

// Whether the device can hold tensors of this dtype: torch.accelerator.get_device_capability() tells programs.
// Optional: true without a definition.
BACKEND_API bool supportsDtype(int index, c10::ScalarType dtype);

// Whether kernels of a device can access the memory of another one. The two are never the same device. Copies between devices must work
// either way. Part of the capability "peer_access".
BACKEND_API bool canAccessPeer(int index, int peer);

// Stream priorities, lowest to highest. A lower number is served first, as in CUDA: {0, -1}, for example. Part of the capability
// "priorities".
struct PriorityRange {
  int least = 0;
  int greatest = 0;
};
BACKEND_API PriorityRange priorityRange();

}  // namespace openreg::device
