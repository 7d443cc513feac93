#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/util/ArrayRef.h>

#include <optional>

#include "device/Launch.h"
#include "fallback/Alias.h"
#include "fallback/MemoryScope.h"
#include "fallback/Operand.h"
#include "runtime/Stream.h"
#include "runtime/memory/InlineKernel.h"

namespace openreg::fallback {

// A CPU kernel computes on device memory: an alias is a CPU-tagged tensor over the operand's memory at kernel addresses. No data is
// copied, and what the kernel allocates comes from the device's caching allocator. CopiedOperands has the same functions.
// For one call, by one thread.
class InPlaceOperands {
 public:
  // The operand shares its memory with no operand that has an alias.
  at::Tensor makeAlias(const at::Tensor& operand) const {
    return fallback::makeAlias(operand);
  }

  // Runs `body` (the kernel and the writes back) on this thread, after all earlier work of the device's current stream. A template,
  // because every emulated operator comes through here.
  template <class Body>
  void run(c10::DeviceIndex device, KernelAuthor author, c10::ArrayRef<Operand> /*operands*/, const Body& body) {
    const auto stream = currentStreamHandle(device);
    if (author == KernelAuthor::Program) [[unlikely]] {
      device::synchronizeStream(stream);
      host_scope_.emplace(kAboveProgramKernels);
      body();
      return;
    }
    const InlineKernel submitted(device, currentStreamId(device));
    device::runOnStream(stream, [&] {
      device_scope_.emplace(device);
      body();
    });
  }

  // Gives a written operand the memory that the kernel gave its alias (resize, set_).
  void writeBack(const Operand& operand) const;

  // False if the memory of a result is certainly not that of an alias: an alias does not own its memory.
  static bool mayBelongToAlias(const c10::DataPtr& memory) {
    return memory.get_context() == nullptr && memory.get() != nullptr;
  }

 private:
  // Alive until the results are adopted: it knows their memory. One of them, as the kernel's author decides.
  std::optional<DeviceMemoryScope> device_scope_;
  std::optional<HostMemoryScope> host_scope_;
};

}  // namespace openreg::fallback
