#include "device/Ipc.h"

#include <openreg/openreg.h>

#include <c10/util/Exception.h>

#include <cstring>

#include "device/Error.h"
#include "device/Handles.h"
#include "device/Waiting.h"

// PORTING: share by your SDK's functions. If the SDK shares nothing, replace them all by `const bool no_sharing = notSupported("sharing",
// "the reason");` (Capabilities.h).
namespace openreg::device {
namespace {

template <class Handle>
std::string toBytes(const Handle& handle) {
  return {handle.reserved, sizeof(handle.reserved)};
}

template <class Handle>
Handle fromBytes(const std::string& bytes) {
  Handle handle{};
  TORCH_CHECK_VALUE(
      bytes.size() == sizeof(handle.reserved), "a handle from another process has ", sizeof(handle.reserved), " bytes, but this one has ",
      bytes.size());
  std::memcpy(handle.reserved, bytes.data(), bytes.size());
  return handle;
}

}  // namespace

std::string exportMemory(void* base) {
  orIpcMemHandle_t handle{};
  DEVICE_CHECK(orIpcGetMemHandle(&handle, base));
  return toBytes(handle);
}

void* openMemory(const std::string& handle) {
  void* pointer = nullptr;
  DEVICE_CHECK(orIpcOpenMemHandle(&pointer, fromBytes<orIpcMemHandle_t>(handle)));
  return pointer;
}

void closeMemory(void* pointer) {
  const Waiting waiting;
  DEVICE_CHECK(orIpcCloseMemHandle(pointer));
}

std::string exportEvent(EventHandle event) {
  orIpcEventHandle_t handle{};
  DEVICE_CHECK(orIpcGetEventHandle(&handle, unwrapEvent(event)));
  return toBytes(handle);
}

EventHandle openEvent(const std::string& handle) {
  orEvent_t event = nullptr;
  DEVICE_CHECK(orIpcOpenEventHandle(&event, fromBytes<orIpcEventHandle_t>(handle)));
  return event;
}

}  // namespace openreg::device
