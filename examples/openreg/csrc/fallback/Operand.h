#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/MaybeOwned.h>

#include <cstdint>

// What a Call and its two strategies, InPlaceOperands and CopiedOperands, share.
namespace openreg::fallback {

struct Operand {
  c10::MaybeOwned<at::Tensor> original;  // mostly borrowed: counting references was a quarter of what emulation adds to a small operator
  at::Tensor alias;
  bool written;
};

// Who wrote the CPU kernel. PyTorch's own holds the stream while it runs: work that other threads submit to the stream comes before
// or after all of it. A program's may be a Python function: it may wait for any stream or for the GIL, which a thread that holds a
// stream must not do, and it may keep the tensors that it makes. So it waits for the stream, runs without holding it, and what it
// makes lives in host memory. To other threads it is a sequence of operators.
enum class KernelAuthor : uint8_t {
  PyTorch,
  Program,
};

}  // namespace openreg::fallback
