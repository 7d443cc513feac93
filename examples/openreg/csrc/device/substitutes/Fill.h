#pragma once

#include <cstddef>

#include "device/Stream.h"

namespace openreg::device {

// For an SDK that cannot fill memory: memsetAsync made of copies. A copy from the host writes the first bytes; copies on the device then
// double them, in the order of the stream.
void fillByCopies(void* dst, int value, size_t nbytes, StreamHandle stream);

}  // namespace openreg::device
