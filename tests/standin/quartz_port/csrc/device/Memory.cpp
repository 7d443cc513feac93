#include "device/Memory.h"

#include "device/Device.h"
#include "device/Handles.h"
#include "device/Waiting.h"

namespace acme::device {
namespace {

// The result of an allocation, or nullptr if there was not enough memory.
template <class Function>
void* orNull(Function&& allocate) {
  return guarded([&]() -> void* {
    try {
      return allocate();
    } catch (const quartz::failure& failure) {
      if (failure.why() == quartz::reason::out_of_memory) {
        return nullptr;
      }
      throw;
    }
  });
}

}  // namespace

void* allocate(size_t nbytes) {
  return orNull([&] { return reinterpret_cast<void*>(quartz::reserve(static_cast<unsigned>(current()), nbytes)); });
}

void release(void* pointer) {
  const Waiting waiting;
  guarded([&] { quartz::give_back(quartz::address{bits(pointer)}); });
}

void* hostAllocate(size_t nbytes) {
  return orNull([&] { return quartz::pin(nbytes); });
}

void hostRelease(void* pointer) {
  guarded([&] { quartz::unpin(pointer); });
}

void copyAsync(void* dst, const void* src, size_t nbytes, StreamHandle stream) {
  const Waiting waiting;
  guarded([&] { quartz::copy(unwrap(stream), bits(dst), bits(src), nbytes); });
}

void memsetAsync(void* dst, int value, size_t nbytes, StreamHandle stream) {
  const Waiting waiting;
  guarded([&] { quartz::fill(unwrap(stream), quartz::address{bits(dst)}, static_cast<uint8_t>(value), nbytes); });
}

PointerInfo pointerInfo(const void* pointer) {
  const auto place = guarded([&] { return quartz::find(bits(pointer)); });
  PointerInfo info;
  if (place.what == quartz::kind::of_board) {
    info.type = MemoryType::Device;
    info.device = static_cast<int>(place.board);
    info.base = reinterpret_cast<void*>(place.start);
  } else if (place.what == quartz::kind::pinned) {
    info.type = MemoryType::Host;
  }
  return info;
}

}  // namespace acme::device
