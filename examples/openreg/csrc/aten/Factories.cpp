#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/TensorFactories.h>
#include <torch/library.h>

#include "aten/support/FactoryOptions.h"
#include "runtime/Guard.h"
#include "runtime/memory/CachingAllocator.h"

// Uninitialized tensors. All other factory functions call these.
namespace openreg {
namespace {

constexpr c10::DispatchKeySet kDeviceKey(c10::DispatchKey::PrivateUse1);

c10::DeviceIndex indexOf(std::optional<c10::Device> device) {
  ensureInitialized();
  return resolveDevice(device.has_value() ? device->index() : -1);
}

// torch.utils.deterministic.fill_uninitialized_memory: programs must not see the earlier content of the memory.
at::Tensor filledIfDeterministic(at::Tensor fresh) {
  if (at::globalContext().deterministicAlgorithms() && at::globalContext().deterministicFillUninitializedMemory() && fresh.numel() > 0)
      [[unlikely]] {
    at::native::fill_empty_deterministic_(fresh);
  }
  return fresh;
}

at::Tensor emptyMemoryFormat(
    c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<c10::Layout> layout, std::optional<c10::Device> device,
    std::optional<bool> pin_memory, std::optional<c10::MemoryFormat> memory_format) {
  checkFactoryOptions(layout, pin_memory);
  const DeviceGuard guard(indexOf(device));
  return filledIfDeterministic(
      at::detail::empty_generic(size, &cachingAllocator(), kDeviceKey, c10::dtype_or_default(dtype), memory_format));
}

at::Tensor emptyStrided(
    c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype, std::optional<c10::Layout> layout,
    std::optional<c10::Device> device, std::optional<bool> pin_memory) {
  checkFactoryOptions(layout, pin_memory);
  const DeviceGuard guard(indexOf(device));
  return filledIfDeterministic(
      at::detail::empty_strided_generic(size, stride, &cachingAllocator(), kDeviceKey, c10::dtype_or_default(dtype)));
}

// Zeros without memory. Autograd uses them for gradients that are known to be zero.
at::Tensor efficientZeroTensor(
    c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<c10::Layout> layout, std::optional<c10::Device> device,
    std::optional<bool> pin_memory) {
  checkFactoryOptions(layout, pin_memory);
  at::native::ZeroTensorAllocator allocator(c10::Device(kDeviceType, indexOf(device)));
  return at::detail::empty_generic(
      size, &allocator, kDeviceKey | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor), c10::dtype_or_default(dtype), std::nullopt);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(emptyMemoryFormat));
  m.impl("empty_strided", TORCH_FN(emptyStrided));
  m.impl("_efficientzerotensor", TORCH_FN(efficientZeroTensor));
}

}  // namespace openreg
