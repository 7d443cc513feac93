#include "runtime/memory/InlineKernel.h"

#include <array>
#include <atomic>
#include <utility>

namespace openreg {
namespace {

struct alignas(64) Slot {
  std::atomic<int> kernels{0};
};

constexpr size_t kSlots = 64;
std::array<Slot, kSlots> slots;

thread_local constinit InlineKernel* innermost = nullptr;

// Streams may share a slot; then some memory is reused a little later.
size_t slotOf(c10::DeviceIndex device, c10::StreamId stream) {
  return (static_cast<size_t>(stream) + static_cast<size_t>(device) * 17) % kSlots;
}

}  // namespace

InlineKernel::InlineKernel(c10::DeviceIndex device, c10::StreamId stream)
    : slot_(slotOf(device, stream)), outer_(std::exchange(innermost, this)) {
  slots[slot_].kernels.fetch_add(1);
}

InlineKernel::~InlineKernel() {
  slots[slot_].kernels.fetch_sub(1);
  innermost = outer_;
}

bool InlineKernel::otherThreadsOn(c10::DeviceIndex device, c10::StreamId stream) {
  const size_t slot = slotOf(device, stream);
  int kernels = slots[slot].kernels.load();
  for (const auto* own = innermost; kernels > 0 && own != nullptr; own = own->outer_) {
    kernels -= own->slot_ == slot ? 1 : 0;
  }
  return kernels > 0;
}

}  // namespace openreg
