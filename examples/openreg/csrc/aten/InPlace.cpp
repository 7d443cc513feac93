#include <ATen/core/Tensor.h>
#include <ATen/ops/addr_ops.h>
#include <ATen/ops/conj_physical_ops.h>
#include <torch/library.h>

#include <array>

// In-place operators whose composite implementation works only with PyTorch's own kernels: it calls a kernel without the
// dispatcher, or passes one tensor twice to an out variant, which compares the addresses of the references.
namespace openreg {
namespace {

at::Tensor& conjPhysicalInPlace(at::Tensor& self) {
  return self.is_complex() ? at::_ops::conj_physical_out::call(self, self) : self;
}

at::Tensor& addrInPlace(at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2, const at::Scalar& beta, const at::Scalar& alpha) {
  if (vec1.dim() == 1 && vec2.dim() == 1) {  // else the out variant raises the error
    const std::array<int64_t, 2> product{vec1.numel(), vec2.numel()};
    TORCH_CHECK(
        self.sizes() == product, "output with shape ", self.sizes(), " doesn't match the broadcast shape ", at::IntArrayRef(product));
  }
  return at::_ops::addr_out::call(self, vec1, vec2, beta, alpha, self);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("conj_physical_", TORCH_FN(conjPhysicalInPlace));
  m.impl("addr_", TORCH_FN(addrInPlace));
}

}  // namespace openreg
