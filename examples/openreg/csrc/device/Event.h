#pragma once

#include "device/Export.h"
#include "device/Stream.h"

// Events: marks in streams. Device.h has the rules for all functions.
namespace openreg::device {

// The SDK's event or a struct of the port, opaque to everything above the seam. Never nullptr.
using EventHandle = void*;

// On the current device. Without timing, the event only orders work, and can be shared with other processes. With timing only on a device
// with the capability "timing".
BACKEND_API EventHandle createEvent(bool timing);

// Work that waits for the event still does.
BACKEND_API void destroyEvent(EventHandle event) noexcept;

// Marks the present end of the stream's queue. A later record moves the event, but does not change earlier waits. If the SDK moves
// these: substitutes/FreshEvents.h.
BACKEND_API void recordEvent(EventHandle event, StreamHandle stream);

// Later work of the stream, which may be on another device, starts only after the event's latest record. The host does not wait. An event
// that was never recorded delays nothing.
BACKEND_API void waitEvent(StreamHandle stream, EventHandle event);

// True if the event's latest record was reached, or if it was never recorded. Does not wait.
BACKEND_API bool queryEvent(EventHandle event);

// Blocks until the event's latest record is reached; returns at once for an event that was never recorded.
BACKEND_API void synchronizeEvent(EventHandle event);

// Milliseconds of device time between two completed events of one device that were created with timing. For others it throws an error
// that says which of these they are not: c10::AcceleratorError, as by DEVICE_CHECK, or any other c10::Error. Python users get a
// RuntimeError from each of them. Part of the capability "timing".
BACKEND_API double elapsedTime(EventHandle start, EventHandle end);

}  // namespace openreg::device
