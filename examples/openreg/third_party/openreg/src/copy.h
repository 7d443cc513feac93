// Checks copies and fills, and turns them into work for a stream.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime.h"
#include "status.h"
#include "stream.h"

namespace emulator {

// Same numbers as in the C interface.
enum class Direction : int {
  HostToHost = 0,
  HostToDevice = 1,
  DeviceToHost = 2,
  DeviceToDevice = 3,
  Default = 4,
};

struct CopyRequest {
  void* destination;
  const void* source;
  std::size_t size;
  Direction direction;
};

struct FillRequest {
  void* destination;
  int value;
  std::size_t size;
};

// `wait`: the copy is complete on return. Otherwise it is asynchronous unless it touches pageable memory.
Status copy(Runtime& runtime, ThreadState& thread, const CopyRequest& request, Stream& stream, bool wait);
Status fill(Runtime& runtime, ThreadState& thread, const FillRequest& request, Stream& stream, bool wait);

}  // namespace emulator
