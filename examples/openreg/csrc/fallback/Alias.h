#pragma once

#include <ATen/core/Tensor.h>

namespace openreg::fallback {

// A CPU-tagged tensor over the memory of a device tensor, at kernel addresses. Does not own the memory.
at::Tensor makeAlias(const at::Tensor& operand);

// An alias over the storage of another alias, for operands that share memory.
at::Tensor makeAlias(const at::Tensor& operand, c10::Storage storage);

// Ends the use of an alias by a call. If nobody else holds the alias, this thread reuses it for its next operand. If a kernel
// has stored the alias or a view of it, the alias becomes an additional owner of the memory of `operand`.
void releaseAlias(at::Tensor alias, const at::Tensor& operand) noexcept;

}  // namespace openreg::fallback
