#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/copy_ops.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "device/Memory.h"
#include "fallback/Call.h"
#include "fallback/CaptureHook.h"
#include "fallback/OperatorInfo.h"
#include "runtime/Event.h"
#include "runtime/memory/HostAllocator.h"

// copy_ in every direction: PyTorch calls these functions if one side is on the device.
namespace openreg {
namespace {

bool onDevice(const at::Tensor& tensor) {
  return tensor.device().type() == kDeviceType;
}

// Whether one copy of contiguous bytes is enough.
bool isPlain(const at::Tensor& dst, const at::Tensor& src) {
  return dst.dtype() == src.dtype() && dst.is_conj() == src.is_conj() && dst.is_neg() == src.is_neg() && dst.sizes() == src.sizes() &&
         dst.strides() == src.strides() && dst.is_non_overlapping_and_dense();
}

void copyBytes(const at::Tensor& dst, const at::Tensor& src, device::StreamHandle stream) {
  device::copyAsync(dst.mutable_data_ptr(), src.const_data_ptr(), src.nbytes(), stream);
}

// A plain copy between host and device. The SDK makes it synchronous if the host memory is not pinned.
void transfer(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  const auto& on_device = onDevice(dst) ? dst : src;
  const auto& on_host = onDevice(dst) ? src : dst;
  const auto stream = currentStream(on_device.device().index());
  copyBytes(dst, src, stream.handle());
  if (!non_blocking) {
    stream.synchronize();
  } else if (isPinned(on_host.const_data_ptr())) {
    const auto& data = on_host.storage().data_ptr();
    hostAllocator().record_event(data.get(), data.get_context(), stream);
  }
}

bool recordCopy(const at::Tensor& dst, const at::Tensor& src) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", "");
  torch::jit::Stack stack{dst, src, false};
  return fallback::captureInstead(op, fallback::operatorInfo(op), &stack);
}

// PORTING: call your kernel for copies that convert or rearrange. Both sides are on one device. The kernel handles dtypes,
// strides, conjugation and negation.
void copyOnDevice(at::Tensor& dst, const at::Tensor& src) {
  if (isPlain(dst, src)) {
    if (dst.const_data_ptr() != src.const_data_ptr()) {  // else nothing to do
      at::assert_no_partial_overlap(dst, src);
      copyBytes(dst, src, currentStreamHandle(dst.device().index()));
    }
    return;
  }
  if (fallback::hasCaptureHook() && recordCopy(dst, src)) [[unlikely]] {
    return;
  }
  fallback::Call call;
  const auto from = call.alias(src);
  auto to = call.alias(dst, fallback::Call::Use::Write);
  call.run([&] { at::_ops::copy_::redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU), to, from, /*non_blocking=*/false); });
}

// The source's stream copies. It first waits for the earlier work of the destination's stream, which then waits for the copy.
void copyAcross(at::Tensor& dst, const at::Tensor& src) {
  const bool plain = isPlain(dst, src);
  auto packed = plain ? src : at::empty_like(dst, src.options().dtype(dst.dtype()).device(src.device()), at::MemoryFormat::Contiguous);
  if (!plain) {
    copyOnDevice(packed, src);
  }
  auto landing =
      plain || (dst.is_contiguous() && !dst.is_conj() && !dst.is_neg()) ? dst : at::empty_like(dst, at::MemoryFormat::Contiguous);

  const auto src_stream = currentStream(src.device().index());
  const auto dst_stream = currentStream(dst.device().index());
  Event dst_ready;
  dst_ready.record(dst_stream);
  dst_ready.block(src_stream);
  copyBytes(landing, packed, src_stream.handle());
  Event copied;
  copied.record(src_stream);
  copied.block(dst_stream);
  if (!landing.is_same(dst)) {
    copyOnDevice(dst, landing);
  }
}

// The host and the device each convert their own tensor; one copy of contiguous bytes connects them.
void copyFromHost(at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  if (isPlain(dst, src)) {
    transfer(dst, src, non_blocking);
    return;
  }
  const auto packed = src.resolve_conj().resolve_neg().to(dst.scalar_type()).contiguous();
  if (dst.is_contiguous() && !dst.is_conj() && !dst.is_neg()) {
    transfer(dst, packed, /*non_blocking=*/false);
    return;
  }
  const auto landing = at::empty_like(packed, dst.options().memory_format(at::MemoryFormat::Contiguous));
  transfer(landing, packed, /*non_blocking=*/false);
  copyOnDevice(dst, landing);
}

void copyToHost(at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  if (isPlain(dst, src)) {
    transfer(dst, src, non_blocking);
    return;
  }
  auto packed = at::empty_like(src, src.options().dtype(dst.dtype()), at::MemoryFormat::Contiguous);
  copyOnDevice(packed, src);
  if (dst.is_contiguous() && !dst.is_conj() && !dst.is_neg()) {
    transfer(dst, packed, /*non_blocking=*/false);
    return;
  }
  const auto landing = at::empty_like(packed, dst.options().memory_format(at::MemoryFormat::Contiguous));
  transfer(landing, packed, /*non_blocking=*/false);
  dst.copy_(landing);
}

at::Tensor copyFrom(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  if (dst.numel() == 0) {
    return dst;
  }
  auto target = dst;
  const auto source = self.sizes() == dst.sizes() ? self : self.expand_as(dst);
  if (!onDevice(target)) {
    copyToHost(target, source, non_blocking);
  } else if (!onDevice(source)) {
    TORCH_CHECK(source.is_cpu(), "cannot copy from ", source.device(), " to ", target.device(), "; copy to the host first");
    copyFromHost(target, source, non_blocking);
  } else if (source.device() == target.device()) {
    copyOnDevice(target, source);
  } else {
    copyAcross(target, source);
  }
  return dst;
}

// PyTorch's own kernel shares the memory until one side writes, but supports only PyTorch's own allocators.
at::Tensor lazyClone(const at::Tensor& self) {
  return at::clone(self);
}

at::Tensor copyFromAndResize(const at::Tensor& self, const at::Tensor& dst) {
  at::native::resize_output(dst, self.sizes());
  return copyFrom(self, dst, /*non_blocking=*/false);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_copy_from", TORCH_FN(copyFrom));
  m.impl("_copy_from_and_resize", TORCH_FN(copyFromAndResize));
  m.impl("_lazy_clone", TORCH_FN(lazyClone));
}

TORCH_LIBRARY_IMPL(aten, QuantizedPrivateUse1, m) {
  m.impl("_copy_from", TORCH_FN(copyFrom));
}

// copyFrom handles conjugated and negated views. PyTorch's fallback for other operators would copy them first, and that copy
// would call this operator again, without end.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

}  // namespace openreg
