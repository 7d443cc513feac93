// The arguments of tasks of the kinds Copy and Fill, with kernel addresses.
#pragma once

#include <cstddef>
#include <cstring>

namespace emulator {

struct CopyWork {
  void* destination;
  const void* source;
  std::size_t size;

  static void run(void* arguments) {
    const auto& work = *static_cast<const CopyWork*>(arguments);
    std::memcpy(work.destination, work.source, work.size);
  }
};

struct FillWork {
  void* destination;
  int value;
  std::size_t size;

  static void run(void* arguments) {
    const auto& work = *static_cast<const FillWork*>(arguments);
    std::memset(work.destination, work.value, work.size);
  }
};

// From this size on it is faster to leave the work to a worker while the host continues.
inline constexpr std::size_t kWorthQueueing = std::size_t{64} << 10;

}  // namespace emulator
