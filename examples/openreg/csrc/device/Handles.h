#pragma once

#include <openreg/openreg.h>

#include "device/Event.h"
#include "device/Stream.h"

// Maps the opaque handles of the seam to the SDK's types. Only for the sources of this folder.
// PORTING: include the header of your SDK above, and use its types here.
namespace openreg::device {

inline orStream_t unwrap(StreamHandle stream) {
  return static_cast<orStream_t>(stream);
}

inline orEvent_t unwrapEvent(EventHandle event) {
  return static_cast<orEvent_t>(event);
}

}  // namespace openreg::device
