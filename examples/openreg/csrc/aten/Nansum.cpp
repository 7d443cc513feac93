#include <ATen/core/Tensor.h>
#include <ATen/ops/nansum_ops.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include "fallback/Unboxed.h"

// nansum of complex numbers: the sum of all elements except for NaN. Accelerators support it; the CPU refuses it in every precision.
namespace openreg {
namespace {

at::Tensor numbersOf(const at::Tensor& self) {
  return at::where(self.isnan(), at::Scalar(0), self);
}

at::Tensor nansum(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, std::optional<at::ScalarType> dtype) {
  return self.is_complex() ? at::sum(numbersOf(self), dim, keepdim, dtype)
                           : fallback::Emulated<at::_ops::nansum>::call(self, dim, keepdim, dtype);
}

at::Tensor& nansumOut(
    const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, std::optional<at::ScalarType> dtype, at::Tensor& out) {
  return self.is_complex() ? at::sum_out(out, numbersOf(self), dim, keepdim, dtype)
                           : fallback::Emulated<at::_ops::nansum_out>::call(self, dim, keepdim, dtype, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  const fallback::OperatorOrigin origin{fallback::Origin::Fallback, "called by a kernel of the device, but for complex numbers"};
  m.impl("nansum", fallback::withOrigin(origin, TORCH_FN(nansum)));
  m.impl("nansum.out", fallback::withOrigin(origin, TORCH_FN(nansumOut)));
}

}  // namespace openreg
