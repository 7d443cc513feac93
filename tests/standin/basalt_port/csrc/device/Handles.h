#pragma once

#include <basalt.h>

#include "device/Event.h"
#include "device/Stream.h"
#include "device/substitutes/MemoryBudget.h"
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

// Basalt does not tell how much memory is free, only how much there is.
inline MemoryBudget& budget() {
  static auto& instance = *new MemoryBudget(properties(0).total_memory);
  return instance;
}

}  // namespace acme::device
