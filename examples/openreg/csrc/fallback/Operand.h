#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/MaybeOwned.h>

#include <cstdint>

// Types that Call and its two strategies, InPlaceOperands and CopiedOperands, share.
namespace openreg::fallback {

struct Operand {
  // Usually borrowed, because counting references took a quarter of the emulation's cost for a small operator.
  c10::MaybeOwned<at::Tensor> original;
  at::Tensor alias;
  bool written;
};

// Who wrote the CPU kernel. One of PyTorch's own kernels holds the stream while it runs: other work of the stream runs before or after
// the whole kernel. A program's kernel may be a Python function, which may wait for any stream or for the GIL, and may keep the
// tensors that it creates. A thread that holds a stream must not wait for these. Therefore such a kernel waits for the stream and runs
// without holding it, and its new tensors are in host memory. To other threads it is a sequence of operators.
enum class KernelAuthor : uint8_t {
  PyTorch,
  Program,
};

}  // namespace openreg::fallback
