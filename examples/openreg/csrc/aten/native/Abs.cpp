#include <ATen/Dispatch_v2.h>
#include <ATen/OpMathType.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/abs_native.h>
#include <torch/library.h>

#include <cmath>
#include <cstdlib>
#include <type_traits>

#include "aten/support/Pointwise.h"
#include "fallback/HostBody.h"

// Style: dispatch stub. PyTorch's `abs` handles shapes, dtypes and complex numbers; the kernel of this device, registered
// with its stub, only does the arithmetic.
namespace openreg::native {
namespace {

// A template, so that the branch for signed types is not compiled for unsigned ones.
template <class T>
T absolute(T x) {
  if constexpr (std::is_unsigned_v<T>) {
    return x;
  } else {
    return static_cast<T>(std::abs(static_cast<at::opmath_type<T>>(x)));
  }
}

// PORTING: launch the device's element-wise kernel here; launchPointwise runs a function of the host for each element.
void absKernel(at::TensorIteratorBase& iterator) {
  AT_DISPATCH_V2(
      iterator.common_dtype(), "abs", AT_WRAP([&] {
        launchPointwise<scalar_t, scalar_t>(iterator, [](scalar_t x) -> scalar_t {
          return absolute(x);
        });
      }),
      AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), at::kComplexHalf, at::kHalf, at::kBFloat16, at::kBool);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  // When the body launches the device's own code, register TORCH_FN(...) alone.
  m.impl("abs", fallback::hostFunction("abs", TORCH_FN(at::native::abs)));
  m.impl("abs_", fallback::hostFunction("abs_", TORCH_FN(at::native::abs_)));
  m.impl("abs.out", fallback::hostFunction("abs.out", TORCH_FN(at::native::abs_out)));
}

}  // namespace openreg::native

namespace at::native {

// Registered in PyTorch's namespace, because the macro requires it.
REGISTER_PRIVATEUSE1_DISPATCH(abs_stub, &::openreg::native::absKernel)

}  // namespace at::native
