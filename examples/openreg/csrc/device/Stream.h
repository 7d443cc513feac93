#pragma once

#include "device/Export.h"

// PORTING: streams. Map each function of this file to your SDK in Stream.cpp.
namespace openreg::device {

// The SDK's stream, opaque to everything above the seam. nullptr is the default stream of the current device.
using StreamHandle = void*;

BACKEND_API StreamHandle createStream(int priority);  // on the current device
BACKEND_API bool queryStream(StreamHandle stream);  // true: everything submitted has completed
BACKEND_API void synchronizeStream(StreamHandle stream);
BACKEND_API int streamPriority(StreamHandle stream);
BACKEND_API int streamDevice(StreamHandle stream);

}  // namespace openreg::device
