#pragma once

#include <c10/core/StorageImpl.h>

#include <optional>

#include "device/Export.h"
#include "device/Stream.h"

namespace openreg {

// Resizes the storage to `nbytes`, and keeps as much of its content as fits. Raises an error if the storage is not resizable.
// The content is copied on the given stream, or on the current stream.
BACKEND_API void resizeStorage(c10::StorageImpl* storage, size_t nbytes, std::optional<device::StreamHandle> stream = std::nullopt);

// Memory of the device with the content of a storage in host memory, which is copied on the current stream.
c10::DataPtr copyToDevice(const c10::StorageImpl& host, c10::DeviceIndex device);

}  // namespace openreg
