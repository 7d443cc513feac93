#include <ATen/core/Tensor.h>
#include <ATen/ops/fill_ops.h>
#include <torch/library.h>

#include "device/Memory.h"
#include "runtime/Stream.h"

// Style: TORCH_LIBRARY_IMPL with a plain function. The function has the operator's C++ signature and calls the SDK.
namespace openreg::native {
namespace {

at::Tensor& zero(at::Tensor& self) {
  if (self.numel() == 0) {
    return self;
  }
  if (!self.is_non_overlapping_and_dense()) {
    return at::_ops::fill__Scalar::call(self, 0);
  }
  device::memsetAsync(self.mutable_data_ptr(), 0, self.nbytes(), currentStreamHandle(self.device().index()));
  return self;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("zero_", TORCH_FN(zero));
}

}  // namespace openreg::native
