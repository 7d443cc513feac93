#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/ops/leaky_relu_meta.h>
#include <torch/library.h>

#include "aten/support/Pointwise.h"
#include "aten/support/Structured.h"
#include "fallback/HostBody.h"

// Style: structured kernel. PyTorch's meta function checks the arguments and computes the shape of the output; one body
// implements the functional, the in-place and the out variant.
namespace openreg::native {
namespace {

struct LeakyRelu : at::meta::structured_leaky_relu {
  void impl(const at::Tensor& /*self*/, const at::Scalar& negative_slope, const at::Tensor& /*out*/) {
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, dtype(), "leaky_relu", [&] {
      using math_t = at::opmath_type<scalar_t>;
      const auto slope = negative_slope.to<math_t>();
      launchPointwise<scalar_t, scalar_t>(*this, [slope](scalar_t x) -> scalar_t {
        const auto value = static_cast<math_t>(x);
        return static_cast<scalar_t>(value > 0 ? value : value * slope);
      });
    });
  }
};

at::Tensor leakyRelu(const at::Tensor& self, const at::Scalar& negative_slope) {
  return functional<LeakyRelu>(self, negative_slope);
}

at::Tensor& leakyReluInPlace(at::Tensor& self, const at::Scalar& negative_slope) {
  return inPlace<LeakyRelu>(self, negative_slope);
}

at::Tensor& leakyReluOut(const at::Tensor& self, const at::Scalar& negative_slope, at::Tensor& out) {
  return outVariant<LeakyRelu>(out, self, negative_slope);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  // When the body launches the device's own code, register TORCH_FN(...) alone.
  m.impl("leaky_relu", fallback::hostFunction("leaky_relu", TORCH_FN(leakyRelu)));
  m.impl("leaky_relu_", fallback::hostFunction("leaky_relu_", TORCH_FN(leakyReluInPlace)));
  m.impl("leaky_relu.out", fallback::hostFunction("leaky_relu.out", TORCH_FN(leakyReluOut)));
}

}  // namespace openreg::native
