#include "runtime/memory/HostAllocator.h"

#include <cstring>

#include "device/Capabilities.h"
#include "device/Memory.h"
#include "device/Waiting.h"
#include "runtime/Event.h"
#include "runtime/Stream.h"

namespace openreg {
namespace {

using HostBlock = at::HostBlock<c10::Stream>;

struct HostAllocatorImpl final : at::CachingHostAllocatorImpl<c10::Stream, Event, HostBlock> {
  void copy_data(void* dest, const void* src, size_t count) const override {
    std::memcpy(dest, src, count);
  }

 private:
  void allocate_host_memory(size_t size, void** pointer) override {
    device::requireCapability("pinned_memory");
    ensureInitialized();
    *pointer = device::hostAllocate(size);
    TORCH_CHECK_WITH(OutOfMemoryError, *pointer != nullptr, "the system cannot pin ", size, " bytes of memory");
  }

  void free_block(HostBlock* block) override {
    device::hostRelease(block->ptr_);
  }

  void record_stream(std::optional<std::vector<Event>>& events, c10::Stream stream) override {
    Event event;
    event.record(Stream(stream));
    events->push_back(std::move(event));
  }

  bool query_event(Event& event) override {
    return event.query();
  }

  c10::Stream get_current_stream() const override {
    return currentStream();
  }

  bool stream_is_capturing(c10::Stream stream) const override {
    return Stream(stream).isCapturing();
  }
};

void deleteHostBlock(void* context);

struct HostAllocator final : at::CachingHostAllocatorInterface<HostAllocatorImpl, deleteHostBlock> {
  // Releasing pinned memory may wait for the device with PyTorch's locks held, so the GIL must be released before these are locked.
  void empty_cache() override {
    const device::Waiting waiting;
    CachingHostAllocatorInterface::empty_cache();
  }
};

HostAllocator& instance() {
  // Never destroyed, because pinned tensors may outlive every static object of this library.
  static auto& allocator = *new HostAllocator;
  return allocator;
}

void deleteHostBlock(void* context) {
  instance().free(context);
}

const bool host_allocator_registered = [] {
  at::setHostAllocator(kDeviceType, &instance());
  return true;
}();

}  // namespace

at::HostAllocator& hostAllocator() {
  return instance();
}

bool isPinned(const void* pointer) {
  return pointer != nullptr && isInitialized() && device::hasCapability("pinned_memory") &&
         device::pointerInfo(pointer).type == device::MemoryType::Host;
}

}  // namespace openreg
