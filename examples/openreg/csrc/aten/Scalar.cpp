#include <ATen/Dispatch_v2.h>
#include <torch/library.h>

#include "device/Memory.h"
#include "runtime/Stream.h"

// tensor.item(): copies one element to the host after the earlier work of the current stream.
namespace openreg {
namespace {

at::Scalar localScalarDense(const at::Tensor& self) {
  TORCH_CHECK(self.numel() > 0, "cannot read a number out of an empty tensor");
  auto* stream = currentStreamHandle(self.device().index());
  return AT_DISPATCH_V2(
      self.scalar_type(), "_local_scalar_dense", AT_WRAP([&]() -> at::Scalar {
        scalar_t value{};
        device::copyAsync(&value, self.const_data_ptr<scalar_t>(), sizeof(scalar_t), stream);
        device::synchronizeStream(stream);
        return value;
      }),
      AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), AT_EXPAND(AT_FLOAT8_TYPES), at::kComplexHalf, at::kHalf,
      at::kBool, at::kBFloat16);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_local_scalar_dense", TORCH_FN(localScalarDense));
}

}  // namespace openreg
