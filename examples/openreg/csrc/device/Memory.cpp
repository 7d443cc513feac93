#include "device/Memory.h"

#include "device/Error.h"
#include "device/Handles.h"
#include "device/Waiting.h"

// PORTING: allocate and copy by your SDK's functions. hostAllocate, hostRelease and memsetAsync are optional.
namespace openreg::device {

void* allocate(size_t nbytes) {
  void* pointer = nullptr;
  const auto code = orMalloc(&pointer, nbytes);
  if (code == orErrorMemoryAllocation) {
    orGetLastError();
    return nullptr;
  }
  DEVICE_CHECK_CODE(code, "orMalloc");
  return pointer;
}

void release(void* pointer) {
  const Waiting waiting;
  DEVICE_CHECK(orFree(pointer));
}

void* hostAllocate(size_t nbytes) {
  void* pointer = nullptr;
  const auto code = orMallocHost(&pointer, nbytes);
  if (code == orErrorMemoryAllocation) {
    orGetLastError();
    return nullptr;
  }
  DEVICE_CHECK_CODE(code, "orMallocHost");
  return pointer;
}

void hostRelease(void* pointer) {
  DEVICE_CHECK(orFreeHost(pointer));
}

void copyAsync(void* dst, const void* src, size_t nbytes, StreamHandle stream) {
  const Waiting waiting;
  DEVICE_CHECK(orMemcpyAsync(dst, src, nbytes, orMemcpyDefault, unwrap(stream)));
}

void memsetAsync(void* dst, int value, size_t nbytes, StreamHandle stream) {
  const Waiting waiting;
  DEVICE_CHECK(orMemsetAsync(dst, value, nbytes, unwrap(stream)));
}

PointerInfo pointerInfo(const void* pointer) {
  orPointerAttributes attributes{};
  DEVICE_CHECK(orPointerGetAttributes(&attributes, pointer));
  PointerInfo info;
  switch (attributes.type) {
    case orMemoryTypeDevice:
      info.type = MemoryType::Device;
      info.device = attributes.device;
      info.base = attributes.basePointer;
      info.size = attributes.size;
      break;
    case orMemoryTypeHost:
      info.type = MemoryType::Host;
      break;
    case orMemoryTypeUnregistered:
      break;
  }
  return info;
}

}  // namespace openreg::device
