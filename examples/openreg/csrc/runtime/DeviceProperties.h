#pragma once

#include <c10/core/Device.h>

#include "device/Device.h"

namespace openreg {

using DeviceProperties = device::Properties;

// Read from the SDK once for each device. Raises an error for a device that does not exist.
BACKEND_API const DeviceProperties& deviceProperties(c10::DeviceIndex index);

}  // namespace openreg
