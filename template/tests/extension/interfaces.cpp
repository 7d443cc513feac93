#include <ATen/Context.h>
#include <ATen/ScalarOps.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/add.h>
#include <ATen/ops/atan2.h>
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

// The handle of an event, as torch.Event.event_id shows it. 0: the event was never recorded.
void* event(int64_t id) {
  return reinterpret_cast<void*>(id);
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
  m.def("hooks_init() -> ()", [] { hooks().init(); });
  m.def("hooks_is_built() -> bool", [] { return hooks().isBuilt(); });
  m.def("hooks_is_available() -> bool", [] { return hooks().isAvailable(); });
  m.def("hooks_has_primary_context(int index) -> bool", [](int64_t index) {
    return hooks().hasPrimaryContext(static_cast<c10::DeviceIndex>(index));
  });
  m.def("hooks_device_of(int address) -> int", [](int64_t address) -> int64_t {
    return hooks().getDeviceFromPtr(reinterpret_cast<void*>(address)).index();
  });
  m.def("hooks_is_pinned(int address) -> bool", [](int64_t address) { return hooks().isPinnedPtr(reinterpret_cast<void*>(address)); });
  // Schemas name a generator by the type of an optional one.
  m.def("hooks_default_generator(int index) -> Generator?", [](int64_t index) {
    return hooks().getDefaultGenerator(static_cast<c10::DeviceIndex>(index));
  });
  m.def("hooks_new_generator(int index) -> Generator?", [](int64_t index) {
    return hooks().getNewGenerator(static_cast<c10::DeviceIndex>(index));
  });
  m.def("guard_exchange_device(int index) -> int", [](int64_t index) -> int64_t { return guard().exchangeDevice(device(index)).index(); });
  m.def("guard_unchecked_set_device(int index) -> ()", [](int64_t index) { guard().uncheckedSetDevice(device(index)); });
  m.def("guard_device() -> int", []() -> int64_t { return guard().getDevice().index(); });
  m.def("guard_device_count() -> int", []() -> int64_t { return guard().deviceCount(); });
  m.def("guard_stream(int index) -> Stream", [](int64_t index) { return guard().getStream(device(index)); });
  m.def("guard_exchange_stream(Stream stream) -> Stream", [](c10::Stream stream) { return guard().exchangeStream(stream); });
  m.def("guard_default_stream(int index) -> Stream", [](int64_t index) { return guard().getDefaultStream(device(index)); });
  m.def("guard_pool_stream(int index, bool high_priority) -> Stream", [](int64_t index, bool high_priority) {
    return guard().getStreamFromGlobalPool(device(index), high_priority);
  });
  m.def("guard_query_event(int id) -> bool", [](int64_t id) { return guard().queryEvent(event(id)); });
  m.def("guard_synchronize_event(int id) -> ()", [](int64_t id) { guard().synchronizeEvent(event(id)); });
  m.def("guard_block(int id, Stream stream) -> ()", [](int64_t id, c10::Stream stream) { guard().block(event(id), stream); });
  m.def("guard_elapsed_time(int start, int end, int index) -> float", [](int64_t start, int64_t end, int64_t index) {
    return guard().elapsedTime(event(start), event(end), static_cast<c10::DeviceIndex>(index));
  });
  m.def("guard_keep(Tensor x, Stream stream) -> ()", [](const at::Tensor& x, c10::Stream stream) {
    guard().recordDataPtrOnStream(x.storage().data_ptr(), stream);
  });
  m.def("add_number(Tensor x, float number) -> Tensor", [](const at::Tensor& x, double number) {
    return at::add(x, at::native::wrapped_scalar_tensor(number, x.device()));
  });
  m.def("atan2_number(Tensor x, float number) -> Tensor", [](const at::Tensor& x, double number) {
    return at::atan2(x, at::native::wrapped_scalar_tensor(number, x.device()));
  });
}
