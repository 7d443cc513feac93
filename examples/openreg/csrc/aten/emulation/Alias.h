#pragma once

#include <ATen/core/Tensor.h>

namespace openreg::emulation {

// A CPU-tagged tensor over the memory of a device tensor, at kernel addresses. Does not own the memory.
at::Tensor makeAlias(const at::Tensor& operand);

// The same over the storage of another alias, for operands that share memory.
at::Tensor makeAlias(const at::Tensor& operand, c10::Storage storage);

// Keeps an alias that is done with for the next operand of this thread, unless somebody else holds it or marked it.
void recycleAlias(at::Tensor alias) noexcept;

}  // namespace openreg::emulation
