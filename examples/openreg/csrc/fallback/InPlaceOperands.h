#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/FunctionRef.h>

#include <optional>

#include "fallback/MemoryScope.h"
#include "fallback/Operand.h"

namespace openreg::fallback {

// A CPU kernel computes on device memory: an alias is a CPU-tagged tensor over the operand's memory at kernel addresses. No data is
// copied, and what the kernel allocates comes from the device's caching allocator. CopiedOperands has the same functions.
// For one call, by one thread.
class InPlaceOperands {
 public:
  // The operand shares its memory with no operand that has an alias.
  at::Tensor makeAlias(const at::Tensor& operand) const;

  // Runs `body` (the kernel and the writes back) on this thread, after all earlier work of the device's current stream.
  void run(c10::DeviceIndex device, KernelAuthor author, c10::ArrayRef<Operand> operands, c10::function_ref<void()> body);

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
