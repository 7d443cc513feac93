#pragma once

#include <ATen/core/Tensor.h>

namespace openreg::fallback {

// A CPU-tagged tensor over the memory of a device tensor, at kernel addresses. Does not own the memory.
at::Tensor makeAlias(const at::Tensor& operand);

// The same over the storage of another alias, for operands that share memory.
at::Tensor makeAlias(const at::Tensor& operand, c10::Storage storage);

// Ends the use of an alias by a call. Nobody else holds it: it is kept for the next operand of this thread. A kernel has stored
// it, or a view of it: from now on it owns the memory of `operand` together with the operand.
void releaseAlias(at::Tensor alias, const at::Tensor& operand) noexcept;

}  // namespace openreg::fallback
