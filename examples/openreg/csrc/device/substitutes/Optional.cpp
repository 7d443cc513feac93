// The optional functions of the seam: a port need not write functions for what its SDK does not have (Optional.h).
#include "device/substitutes/Optional.h"

#include "device/Address.h"
#include "device/Device.h"
#include "device/Error.h"
#include "device/Event.h"
#include "device/Launch.h"
#include "device/Memory.h"
#include "device/Stream.h"
#include "device/substitutes/Fill.h"

namespace openreg::device {
BACKEND_OPTIONAL ptrdiff_t detail::kernelAddressOffset() {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "`kernelAddressOffset` is not written yet. Write it in csrc/device/Address.cpp");
}

BACKEND_OPTIONAL bool supportsDtype(int /*index*/, c10::ScalarType /*dtype*/) {
  return true;
}

BACKEND_OPTIONAL int noSuchDeviceCode() noexcept {
  return -1;
}

BACKEND_OPTIONAL bool canAccessPeer(int /*index*/, int /*peer*/) {
  refuse("peer_access", "canAccessPeer");
}

BACKEND_OPTIONAL PriorityRange priorityRange() {
  refuse("priorities", "priorityRange");
}

BACKEND_OPTIONAL int streamPriority(StreamHandle /*stream*/) {
  refuse("priorities", "streamPriority");
}

BACKEND_OPTIONAL double elapsedTime(EventHandle /*start*/, EventHandle /*end*/) {
  refuse("timing", "elapsedTime");
}

BACKEND_OPTIONAL void* hostAllocate(size_t /*nbytes*/) {
  refuse("pinned_memory", "hostAllocate");
}

BACKEND_OPTIONAL void hostRelease(void* /*pointer*/) {
  refuse("pinned_memory", "hostRelease");
}

BACKEND_OPTIONAL void memsetAsync(void* dst, int value, size_t nbytes, StreamHandle stream) {
  fillByCopies(dst, value, nbytes, stream);
}

BACKEND_OPTIONAL void launchWithOperands(
    KernelFunction kernel, const void* arguments, size_t size, std::span<const Operand> /*operands*/, StreamHandle stream) {
  launchKernel(kernel, arguments, size, stream);
}

BACKEND_OPTIONAL void launchInline(HostFunction function, void* arguments, StreamHandle stream) {
  synchronizeStream(stream);
  function(arguments);
}

BACKEND_OPTIONAL StreamHandle runningStream() {
  return nullptr;
}

}  // namespace openreg::device
