#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/FunctionRef.h>

#include <optional>

#include "device/Stream.h"
#include "fallback/MemoryScope.h"
#include "fallback/Operand.h"

namespace openreg::fallback {

// A CPU kernel computes on copies: an alias is a tensor in host memory, which gets the operand's content before the kernel runs. If
// it is written, its elements are copied back, and nothing that lies between them. InPlaceOperands has the same functions.
// For one call, by one thread.
class CopiedOperands {
 public:
  // In host memory without content. The operand shares its memory with no operand that has an alias.
  at::Tensor makeAlias(const at::Tensor& operand) const;

  // Copies the operands to their aliases and runs `body` (the kernel and the writes back) on this thread, after all earlier work of
  // the device's current stream.
  void run(c10::DeviceIndex device, KernelAuthor author, c10::ArrayRef<Operand> operands, c10::function_ref<void()> body);

  // Gives a written operand the content of its alias, and a storage as large. Within `body` only.
  void writeBack(const Operand& operand) const;

  // An alias owns its memory, so the memory of a result may be that of an alias.
  static bool mayBelongToAlias(const c10::DataPtr& /*memory*/) {
    return true;
  }

 private:
  void copyElementsBack(const at::Tensor& alias, char* storage) const;

  std::optional<HostMemoryScope> scope_;  // alive until the results are adopted
  device::StreamHandle copies_ = nullptr;  // the stream that the copies run on, because the current one is held meanwhile
  c10::DeviceIndex device_ = -1;
};

}  // namespace openreg::fallback
