#include "fallback/MultiPartFallback.h"

#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_empty_per_channel_affine_quantized_ops.h>
#include <ATen/ops/_nested_tensor_size_native.h>
#include <ATen/ops/_nested_tensor_storage_offsets_native.h>
#include <ATen/ops/_nested_tensor_strides_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/_to_copy_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/copy_sparse_to_sparse_native.h>
#include <ATen/ops/empty_like_native.h>
#include <ATen/ops/empty_quantized_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include "fallback/Boxed.h"
#include "fallback/Fallback.h"
#include "fallback/OperatorInfo.h"
#include "fallback/OperatorOrigin.h"

namespace openreg::fallback {
namespace {

void runMultiPartFallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  auto& info = operatorInfo(op);
  if (info.counter.countAndCheckFast()) [[likely]] {
    runBoxed(op, info, stack, KernelSelection::ByOperands);
    return;
  }
  info.counter.describe(op, *stack);
  runByPolicy(op, info, stack, KernelSelection::ByOperands);
}

// To copy between devices, PyTorch requests an empty tensor on one device with the scales of a tensor on another device.
at::Tensor emptyPerChannel(
    c10::SymIntArrayRef size, const at::Tensor& scales, const at::Tensor& zero_points, int64_t axis, std::optional<at::ScalarType> dtype,
    std::optional<c10::Layout> layout, std::optional<c10::Device> device, std::optional<bool> pin_memory,
    std::optional<c10::MemoryFormat> memory_format) {
  const auto target = device.value_or(scales.device());
  if (scales.device().type() == target.type() && zero_points.device().type() == target.type()) {
    return at::native::call_fallback_fn_symint<&runMultiPartFallback, at::_ops::_empty_per_channel_affine_quantized>::call(
        size, scales, zero_points, axis, dtype, layout, device, pin_memory, memory_format);
  }
  return at::_ops::_empty_per_channel_affine_quantized::call(
      size, scales.to(target), zero_points.to(target), axis, dtype, layout, target, pin_memory, memory_format);
}

void registerKind(const MultiPartKind& kind) {
  // Never destroyed, because its destructor would remove the registrations.
  auto& library = *new torch::Library(torch::Library::IMPL, "aten", kind.device, __FILE__, __LINE__);
  auto& dispatcher = c10::Dispatcher::singleton();
  const auto reason = c10::str("the CPU's kernel for ", kind.name, " tensors");
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findOp(name);
    if (name.getNamespace() == "aten" && op->hasKernelForDispatchKey(kind.cpu) && !op->hasKernelForDispatchKey(kind.device)) {
      auto kernel = torch::CppFunction::makeFromBoxedFunction<&runMultiPartFallback>();
      library.impl(c10::toString(name).c_str(), withOrigin({Origin::Fallback, reason}, std::move(kernel)));
    }
  }
}

}  // namespace

void registerMultiPartFallbacks() {
  static const bool done = [] {
    for (const auto& kind : kMultiPartKinds) {
      registerKind(kind);
    }
    return true;
  }();
  static_cast<void>(done);
}

// Copies between devices, the allocation of their targets, and views: PyTorch's own kernels work for every device.

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  m.impl("copy_", TORCH_FN(at::native::copy_sparse_wrapper_));
  m.impl("copy_sparse_to_sparse_", TORCH_FN(at::native::copy_sparse_));
  m.impl("empty_like", TORCH_FN(at::native::empty_like_sparse_coo));
}

TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  m.impl("copy_", TORCH_FN(at::native::copy_sparse_compressed_));
  m.impl("empty_like", TORCH_FN(at::native::empty_like_sparse_csr));
}

TORCH_LIBRARY_IMPL(aten, QuantizedPrivateUse1, m) {
  m.impl("empty_like", TORCH_FN(at::native::empty_like_quantized));
  m.impl("empty_quantized", TORCH_FN(at::native::empty_quantized));
  m.impl(
      "_empty_per_channel_affine_quantized",
      withOrigin({Origin::Fallback, "the CPU's kernel for quantized tensors"}, TORCH_FN(emptyPerChannel)));
  m.impl("as_strided", TORCH_FN(at::native::as_strided_qtensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
}

TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, m) {
  m.impl("_nested_tensor_size", TORCH_FN(at::native::_nested_tensor_size));
  m.impl("_nested_tensor_strides", TORCH_FN(at::native::_nested_tensor_strides));
  m.impl("_nested_tensor_storage_offsets", TORCH_FN(at::native::_nested_tensor_storage_offsets));
  m.impl("_to_copy", TORCH_FN(at::native::_to_copy_nested));
  m.impl("copy_", TORCH_FN(at::native::copy_nested_));
  m.impl("empty_like", TORCH_FN(at::native::empty_like_nested));
}

}  // namespace openreg::fallback
