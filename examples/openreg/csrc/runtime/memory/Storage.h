#pragma once

#include <c10/core/StorageImpl.h>

#include <optional>

#include "device/Export.h"
#include "device/Stream.h"

namespace openreg {

// Resizes the storage to `nbytes`, and keeps as much of its content as fits. Raises an error if the storage is not resizable.
// The content is copied on the given stream, or on the current stream.
BACKEND_API void resizeStorage(c10::StorageImpl* storage, size_t nbytes, std::optional<device::StreamHandle> stream = std::nullopt);

}  // namespace openreg
