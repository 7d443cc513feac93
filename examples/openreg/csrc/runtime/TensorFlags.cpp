#include "runtime/TensorFlags.h"

#include <torch/csrc/jit/serialization/pickler_helper.h>

#include <utility>

#include "runtime/Functions.h"

namespace openreg {
namespace {

struct FlagsMeta final : public c10::BackendMeta {
  explicit FlagsMeta(TensorFlags flags) : flags(std::move(flags)) {}

  c10::intrusive_ptr<c10::BackendMeta> clone(const c10::intrusive_ptr<c10::BackendMeta>& /*self*/) const override {
    return c10::make_intrusive<FlagsMeta>(flags);
  }

  TensorFlags flags;
};

const bool serialization_registered = [] {
  torch::jit::TensorBackendMetaRegistry(
      kDeviceType,
      [](const at::Tensor& tensor, TensorFlags& saved) { saved.merge(tensorFlags(tensor)); },
      [](const at::Tensor& tensor, TensorFlags& loaded) { setTensorFlags(tensor, loaded); });
  return true;
}();

}  // namespace

TensorFlags tensorFlags(const at::TensorBase& tensor) {
  const auto* meta = dynamic_cast<const FlagsMeta*>(tensor.unsafeGetTensorImpl()->get_backend_meta());
  return meta != nullptr ? meta->flags : TensorFlags{};
}

void setTensorFlags(const at::TensorBase& tensor, TensorFlags flags) {
  auto* impl = tensor.unsafeGetTensorImpl();
  if (!flags.empty() || impl->get_backend_meta() != nullptr) {
    impl->set_backend_meta(c10::make_intrusive<FlagsMeta>(std::move(flags)));
  }
}

}  // namespace openreg
