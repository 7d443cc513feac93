#pragma once

#include <basalt.h>

#include "device/Event.h"
#include "device/Stream.h"
#include "device/substitutes/StreamTable.h"

namespace acme::device {

inline bsStream_t unwrap(StreamHandle stream) {
  return static_cast<bsStream_t>(stream);
}

// The devices of streams, and the submissions for a query that is right while a task runs.
inline StreamTable& streams() {
  static auto& table = *new StreamTable;
  return table;
}

}  // namespace acme::device
