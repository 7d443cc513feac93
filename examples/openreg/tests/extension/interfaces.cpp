#include <ATen/Context.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/library.h>

// What C++ code that knows no backend asks of one: PyTorch calls these functions, and Python reaches only some of them.
namespace {

const at::AcceleratorHooksInterface& hooks() {
  return at::globalContext().getAcceleratorHooksInterface(at::kPrivateUse1);
}

c10::impl::VirtualGuardImpl guard() {
  return c10::impl::VirtualGuardImpl(at::kPrivateUse1);
}

c10::Device device(int64_t index) {
  return {at::kPrivateUse1, static_cast<c10::DeviceIndex>(index)};
}

}  // namespace

TORCH_LIBRARY(interfaces, m) {
  m.def("hooks_exchange_device(int index) -> int", [](int64_t index) -> int64_t {
    return hooks().exchangeDevice(static_cast<c10::DeviceIndex>(index));
  });
  m.def("hooks_maybe_exchange_device(int index) -> int", [](int64_t index) -> int64_t {
    return hooks().maybeExchangeDevice(static_cast<c10::DeviceIndex>(index));
  });
  m.def("hooks_set_current_device(int index) -> ()", [](int64_t index) {
    hooks().setCurrentDevice(static_cast<c10::DeviceIndex>(index));
  });
  m.def("hooks_current_device() -> int", []() -> int64_t { return hooks().getCurrentDevice(); });
  m.def("hooks_device_count() -> int", []() -> int64_t { return hooks().deviceCount(); });
  m.def("hooks_is_built() -> bool", [] { return hooks().isBuilt(); });
  m.def("hooks_has_primary_context(int index) -> bool", [](int64_t index) {
    return hooks().hasPrimaryContext(static_cast<c10::DeviceIndex>(index));
  });
  m.def("hooks_device_of(int address) -> int", [](int64_t address) -> int64_t {
    return hooks().getDeviceFromPtr(reinterpret_cast<void*>(address)).index();
  });
  m.def("guard_exchange_device(int index) -> int", [](int64_t index) -> int64_t { return guard().exchangeDevice(device(index)).index(); });
  m.def("guard_unchecked_set_device(int index) -> ()", [](int64_t index) { guard().uncheckedSetDevice(device(index)); });
  m.def("guard_device() -> int", []() -> int64_t { return guard().getDevice().index(); });
  m.def("guard_device_count() -> int", []() -> int64_t { return guard().deviceCount(); });
  m.def("guard_keep(Tensor x, Stream stream) -> ()", [](const at::Tensor& x, c10::Stream stream) {
    guard().recordDataPtrOnStream(x.storage().data_ptr(), stream);
  });
}
