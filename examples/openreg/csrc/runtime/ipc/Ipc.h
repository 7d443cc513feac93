#pragma once

#include <c10/core/Event.h>
#include <c10/core/Storage.h>

#include <string>

#include "device/Export.h"
#include "runtime/Functions.h"
#include "runtime/ipc/StorageLease.h"

namespace openreg {

// What one process tells another about a storage of device memory.
struct SharedStorage {
  c10::DeviceIndex device = -1;
  size_t nbytes = 0;
  std::string memory;  // handle of the allocation that holds the storage
  size_t offset = 0;  // of the storage in it
  LeaseName lease;
};

// Describes a storage to one receiver. It stays alive here until the receiver is done, and cannot be resized any more. Waits
// for the device, so that the receiver finds what was written. A storage that was received is passed on; both senders have to
// keep running then.
BACKEND_API SharedStorage shareStorage(const c10::Storage& storage);

// For the receiver: the same memory. When the storage is freed the sender can free its own.
BACKEND_API c10::Storage openStorage(const SharedStorage& shared);

// For a receiver that has the storage already.
BACKEND_API void declineStorage(const SharedStorage& shared);

// Frees what was sent from any device and is not used any more by who received it. Sending does the same.
BACKEND_API void collectSharedStorages();

// The handle of an event for other processes. One that was never recorded becomes one of its device, or of the current one if it
// names none. Raises if the event records timestamps.
BACKEND_API std::string shareEvent(c10::Event& event);

// Makes `event`, which is new, the event of the handle.
BACKEND_API void openEvent(c10::Event& event, c10::DeviceIndex device, const std::string& handle);

}  // namespace openreg
