#pragma once

#include "device/Export.h"
#include "device/Stream.h"

// PORTING: events. Map each function of this file to your SDK in Event.cpp.
namespace openreg::device {

// The SDK's event, opaque to everything above the seam.
using EventHandle = void*;

// On the current device. Without timing, the event can be shared with other processes.
BACKEND_API EventHandle createEvent(bool timing);
BACKEND_API void destroyEvent(EventHandle event) noexcept;

// Marks the present end of the stream's queue. A later record moves the event, but does not change earlier waits.
BACKEND_API void recordEvent(EventHandle event, StreamHandle stream);

// Later work of the stream, which may be on another device, starts only after the event's latest record.
BACKEND_API void waitEvent(StreamHandle stream, EventHandle event);

BACKEND_API bool queryEvent(EventHandle event);  // true: reached, or never recorded
BACKEND_API void synchronizeEvent(EventHandle event);

// Milliseconds of device time between two completed events that were created with timing.
BACKEND_API double elapsedTime(EventHandle start, EventHandle end);

}  // namespace openreg::device
