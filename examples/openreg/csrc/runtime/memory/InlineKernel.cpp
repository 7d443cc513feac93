#include "runtime/memory/InlineKernel.h"

#include <array>
#include <atomic>
#include <utility>

#include "runtime/StreamSlot.h"

namespace openreg {
namespace {

struct alignas(64) Slot {
  std::atomic<int> kernels{0};
};

// Streams may share a slot; then some memory is reused a little later.
std::array<Slot, kStreamSlots> slots;

thread_local constinit InlineKernel* innermost = nullptr;

}  // namespace

InlineKernel::InlineKernel(c10::DeviceIndex device, c10::StreamId stream)
    : slot_(streamSlot(device, stream)), outer_(std::exchange(innermost, this)) {
  slots[slot_].kernels.fetch_add(1);
}

InlineKernel::~InlineKernel() {
  slots[slot_].kernels.fetch_sub(1);
  innermost = outer_;
}

bool InlineKernel::otherThreadsOn(c10::DeviceIndex device, c10::StreamId stream) {
  const size_t slot = streamSlot(device, stream);
  int kernels = slots[slot].kernels.load();
  for (const auto* own = innermost; kernels > 0 && own != nullptr; own = own->outer_) {
    kernels -= own->slot_ == slot ? 1 : 0;
  }
  return kernels > 0;
}

}  // namespace openreg
