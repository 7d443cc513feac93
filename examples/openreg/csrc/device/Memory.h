#pragma once

#include <cstddef>

#include "device/Export.h"
#include "device/Stream.h"

// Memory of devices and pinned memory of the host. Device.h has the rules for all functions.
namespace openreg::device {

// Device memory on the current device. Returns nullptr if the device does not have enough of it: the caching allocator then releases what
// it holds and asks once more before it raises torch.OutOfMemoryError. Throws on every other error.
BACKEND_API void* allocate(size_t nbytes);

// Frees what allocate() returned, whichever device is current. May wait for the device. No work uses the memory any more.
BACKEND_API void release(void* pointer);

// Pinned (page-locked) host memory, which asynchronous copies of all devices can use. nullptr if there is not enough. Part of the
// capability "pinned_memory".
BACKEND_API void* hostAllocate(size_t nbytes);
BACKEND_API void hostRelease(void* pointer);

// Ordered on the stream. Each pointer may be device, pinned or pageable memory, also in the middle of an allocation, and the two may be
// on different devices. The ranges do not overlap. With pageable memory the call returns after the copy is done, because the caller may
// free or change that memory at once; otherwise it may return earlier. If the SDK never waits: substitutes/Pageable.h.
BACKEND_API void copyAsync(void* dst, const void* src, size_t nbytes, StreamHandle stream);

// Sets each byte of device memory to `value` (0 to 255), ordered on the stream. Optional: without a definition it is made of copies
// (substitutes/Fill.h).
BACKEND_API void memsetAsync(void* dst, int value, size_t nbytes, StreamHandle stream);

enum class MemoryType { Unregistered,
                        Host,
                        Device };
struct PointerInfo {
  MemoryType type = MemoryType::Unregistered;
  int device = -1;
  void* base = nullptr;  // start of the allocation that contains the pointer
  size_t size = 0;  // of that allocation; only sharing between processes uses it
};
// For every address, whoever owns it: that of an ordinary variable of the host is Unregistered, which is no error.
BACKEND_API PointerInfo pointerInfo(const void* pointer);

}  // namespace openreg::device
