#include <ATen/Dispatch.h>
#include <ATen/ops/sign_meta.h>
#include <torch/library.h>

#include <type_traits>

#include "aten/support/Pointwise.h"
#include "aten/support/Structured.h"

// aten::sign
namespace acme::native {
namespace {

struct Sign : at::meta::structured_sign {
  void impl(const at::Tensor& /*self*/, const at::Tensor& /*out*/) {
    AT_DISPATCH_ALL_TYPES_AND3(at::kBool, at::kHalf, at::kBFloat16, dtype(), "sign", [&] {
      launchPointwise<scalar_t, scalar_t>(*this, [](scalar_t x) -> scalar_t {
        if constexpr (std::is_unsigned_v<scalar_t>) {
          return x > scalar_t(0);
        } else {
          return static_cast<scalar_t>((x > scalar_t(0)) - (x < scalar_t(0)));
        }
      });
    });
  }
};

at::Tensor sign(const at::Tensor& self) {
  return functional<Sign>(self);
}

at::Tensor& signInPlace(at::Tensor& self) {
  return inPlace<Sign>(self);
}

at::Tensor& signOut(const at::Tensor& self, at::Tensor& out) {
  return outVariant<Sign>(out, self);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("sign", TORCH_FN(sign));
  m.impl("sign_", TORCH_FN(signInPlace));
  m.impl("sign.out", TORCH_FN(signOut));
}

}  // namespace acme::native
