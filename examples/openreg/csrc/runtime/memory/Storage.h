#pragma once

#include <c10/core/StorageImpl.h>

#include <optional>

#include "device/Export.h"
#include "device/Stream.h"

namespace openreg {

// Gives the storage room for `nbytes`, keeping what fits of its content. Raises if the storage is not resizable. The content is
// copied on the given stream, or on the current one.
BACKEND_API void resizeStorage(c10::StorageImpl* storage, size_t nbytes, std::optional<device::StreamHandle> stream = std::nullopt);

}  // namespace openreg
