#pragma once

#include <c10/core/StorageImpl.h>

#include "device/Export.h"

namespace openreg {

// Gives the storage room for `nbytes`, keeping what fits of its content. Raises if the storage is not resizable.
BACKEND_API void resizeStorage(c10::StorageImpl* storage, size_t nbytes);

}  // namespace openreg
