#pragma once

#include <c10/core/Event.h>
#include <c10/core/Storage.h>

#include <string>

#include "device/Export.h"
#include "runtime/Functions.h"
#include "runtime/ipc/StorageLease.h"

namespace openreg {

// The description of a storage of device memory for another process.
struct SharedStorage {
  c10::DeviceIndex device = -1;
  size_t nbytes = 0;
  std::string memory;  // handle of the allocation that contains the storage
  size_t offset = 0;  // of the storage in it
  LeaseName lease;
};

// Describes a storage for one receiver. This process keeps the storage alive until the receiver has freed it; the storage
// cannot be resized any more. Waits for the device, so that the receiver sees earlier writes. A received storage can be sent
// on; both senders must then keep running.
BACKEND_API SharedStorage shareStorage(const c10::Storage& storage);

// For the receiver: returns a storage of the same memory. When it is freed, the sender can free its own.
BACKEND_API c10::Storage openStorage(const SharedStorage& shared);

// For a receiver that already has the storage.
BACKEND_API void declineStorage(const SharedStorage& shared);

// Frees sent storages, of all devices, that their receivers have freed. Sending does the same.
BACKEND_API void collectSharedStorages();

// Returns the handle of an event for other processes. An event that was never recorded is created on its device, or on the
// current device if it has none. Raises an error if the event records timestamps.
BACKEND_API std::string shareEvent(c10::Event& event);

// Sets the handle of `event`, which is new.
BACKEND_API void openEvent(c10::Event& event, c10::DeviceIndex device, const std::string& handle);

}  // namespace openreg
