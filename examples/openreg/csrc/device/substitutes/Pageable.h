#pragma once

#include "device/Memory.h"
#include "device/Stream.h"

namespace openreg::device {

// For an SDK whose asynchronous copies never wait: waits for a copy that reads or writes pageable memory. Call it after the submission.
inline void finishIfPageable(const void* dst, const void* src, StreamHandle stream) {
  if (pointerInfo(dst).type == MemoryType::Unregistered || pointerInfo(src).type == MemoryType::Unregistered) {
    synchronizeStream(stream);
  }
}

}  // namespace openreg::device
