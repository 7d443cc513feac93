#pragma once

#include <openreg/openreg.h>

#include "device/Event.h"
#include "device/Stream.h"

// The SDK's types behind the opaque handles of the seam. For the sources of this folder only.
// PORTING: put the types of your SDK here, and its header above.
namespace openreg::device {

inline orStream_t unwrap(StreamHandle stream) {
  return static_cast<orStream_t>(stream);
}

inline orEvent_t unwrapEvent(EventHandle event) {
  return static_cast<orEvent_t>(event);
}

}  // namespace openreg::device
