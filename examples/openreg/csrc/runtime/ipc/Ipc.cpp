#include "runtime/ipc/Ipc.h"

#include <c10/util/Exception.h>

#include <memory>

#include "device/Capabilities.h"
#include "device/Ipc.h"
#include "device/Memory.h"
#include "runtime/Event.h"

namespace openreg {
namespace {

[[maybe_unused]] const bool sharing_added = device::addCapability("sharing");

// The resources of a received storage. The lease is the first member, so it is returned after the memory is closed.
struct Received {
  c10::DeviceIndex device;
  Lease lease;
  ForeignMemory memory;
  size_t offset;
  void* data;

  explicit Received(const SharedStorage& shared)
      : device(shared.device),
        lease(shared.device, shared.lease),
        memory(shared.device, shared.memory),
        offset(shared.offset),
        data(memory.at(offset, shared.nbytes)) {}

  static void free(void* context) {
    const std::unique_ptr<Received> self(static_cast<Received*>(context));
    try {
      // After this the sender may reuse the memory at once.
      synchronizeDevice(self->device);
    } catch (const std::exception& error) {
      TORCH_WARN("memory of another process was returned without waiting for the device: ", error.what());
    }
  }
};

}  // namespace

SharedStorage shareStorage(const c10::Storage& storage) {
  device::requireCapability("sharing");
  auto* impl = storage.unsafeGetStorageImpl();
  SharedStorage shared;
  shared.device = storage.device().index();
  shared.nbytes = storage.nbytes();
  void* const data = impl->mutable_data();
  const auto& owner = impl->data_ptr();
  if (owner.get_deleter() == &Received::free) {
    const auto& received = *static_cast<const Received*>(owner.get_context());
    shared.memory = received.memory.handle();
    shared.offset = received.offset;
  } else {
    const auto info = device::pointerInfo(data);
    TORCH_CHECK(
        info.type == device::MemoryType::Device,
        "the memory of this storage was not allocated by the device, so other processes cannot open it; send a clone of the tensor");
    shared.memory = exportAllocation(info.base);
    shared.offset = static_cast<const char*>(data) - static_cast<const char*>(info.base);
  }
  reclaimLeases(shared.device);
  impl->set_resizable(false);
  synchronizeDevice(shared.device);
  shared.lease = grantLease(shared.device, storage);
  return shared;
}

c10::Storage openStorage(const SharedStorage& shared) {
  ensureInitialized();
  checkDeviceIndex(shared.device);
  auto received = std::make_unique<Received>(shared);
  void* const data = received->data;
  c10::DataPtr owner(data, received.release(), &Received::free, c10::Device(kDeviceType, shared.device));
  return c10::Storage(c10::Storage::use_byte_size_t(), shared.nbytes, std::move(owner), /*allocator=*/nullptr, /*resizable=*/false);
}

void declineStorage(const SharedStorage& shared) {
  ensureInitialized();
  checkDeviceIndex(shared.device);
  const Lease lease(shared.device, shared.lease);
}

void collectSharedStorages() {
  for (c10::DeviceIndex i = 0; isInitialized() && i < deviceCount(); ++i) {
    reclaimLeases(i);
  }
}

std::string shareEvent(c10::Event& event) {
  device::requireCapability("sharing");
  TORCH_CHECK_VALUE(
      event.flag() == c10::EventFlag::PYTORCH_DEFAULT,
      "an event that records timestamps cannot be shared with another process; create it with enable_timing=False");
  if (event.eventId() == nullptr) {
    const auto index = resolveDevice(event.device_index());
    adoptEvent(event, index, createEventOn(index, /*timing=*/false));
  }
  return device::exportEvent(event.eventId());
}

void openEvent(c10::Event& event, c10::DeviceIndex device, const std::string& handle) {
  ensureInitialized();
  checkDeviceIndex(device);
  adoptEvent(event, device, device::openEvent(handle));
}

}  // namespace openreg
