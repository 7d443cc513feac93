#pragma once

#include <cstddef>

#include "device/Export.h"
#include "device/Stream.h"

// PORTING: memory. Map each function of this file to your SDK in Memory.cpp.
namespace openreg::device {

// Device memory on the current device. Returns nullptr if the device does not have enough of it; throws on every other error.
BACKEND_API void* allocate(size_t nbytes);

// May wait for the device. The caller ensures that no work uses the memory any more.
BACKEND_API void release(void* pointer);

// Pinned (page-locked) host memory, which asynchronous copies can use. nullptr if there is not enough.
BACKEND_API void* hostAllocate(size_t nbytes);
BACKEND_API void hostRelease(void* pointer);

// Ordered on the stream. Each pointer may be device, pinned or pageable memory. With pageable memory the call returns after
// the copy is done; otherwise it may return earlier.
BACKEND_API void copyAsync(void* dst, const void* src, size_t nbytes, StreamHandle stream);
BACKEND_API void memsetAsync(void* dst, int value, size_t nbytes, StreamHandle stream);

enum class MemoryType { Unregistered,
                        Host,
                        Device };
struct PointerInfo {
  MemoryType type = MemoryType::Unregistered;
  int device = -1;
  void* base = nullptr;  // start of the allocation that contains the pointer
  size_t size = 0;  // of that allocation
};
BACKEND_API PointerInfo pointerInfo(const void* pointer);

}  // namespace openreg::device
