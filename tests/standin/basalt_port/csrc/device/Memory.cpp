#include "device/Memory.h"

#include "device/Device.h"
#include "device/Error.h"
#include "device/Handles.h"
#include "device/Waiting.h"
#include "device/substitutes/Pageable.h"

namespace acme::device {
namespace {

void* orNull(bsStatus status, void* pointer) {
  DEVICE_CHECK_CODE(status == bsErrorMemory ? bsSuccess : status, "bsMalloc");
  return status == bsSuccess ? pointer : nullptr;
}

}  // namespace

void* allocate(size_t nbytes) {
  return budget().allocate(current(), nbytes, [&] {
    void* pointer = nullptr;
    const auto status = bsMalloc(&pointer, nbytes);
    return orNull(status, pointer);
  });
}

void release(void* pointer) {
  const Waiting waiting;
  budget().release(pointer, [&] { DEVICE_CHECK(bsFree(pointer)); });
}

void* hostAllocate(size_t nbytes) {
  void* pointer = nullptr;
  const auto status = bsMallocHost(&pointer, nbytes);
  return orNull(status, pointer);
}

void hostRelease(void* pointer) {
  DEVICE_CHECK(bsFreeHost(pointer));
}

void copyAsync(void* dst, const void* src, size_t nbytes, StreamHandle stream) {
  const Waiting waiting;
  DEVICE_CHECK(bsMemcpyAsync(dst, src, nbytes, unwrap(stream)));
  streams().submitted(stream);
  finishIfPageable(dst, src, stream);
}

PointerInfo pointerInfo(const void* pointer) {
  bsPointerInfo found{};
  DEVICE_CHECK(bsGetPointerInfo(pointer, &found));
  constexpr MemoryType kTypes[] = {MemoryType::Unregistered, MemoryType::Host, MemoryType::Device};  // in the order of bsMemoryKind
  return {kTypes[found.kind], found.device, found.start};
}

}  // namespace acme::device
