#pragma once

#include <ATen/core/Tensor.h>

// What the host does in the device's place where it cannot reach device memory (device/Address.h): on copies.
namespace openreg {

// A CPU tensor like the operand, with its content, strides, conjugation and negation, over all memory from its first element
// to its last. Waits for the operand's stream.
at::Tensor toHostMemory(const at::Tensor& operand);

// The way back, of a copy that toHostMemory made of the same operand.
void fromHostMemory(const at::Tensor& operand, const at::Tensor& copy);

}  // namespace openreg
