// The board of a process: a block of shared memory in which other processes look up its handles.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "platform/platform.h"

namespace emulator {

// The layout of a handle of the C interface.
struct IpcHandle {
  std::uint32_t magic = 0;
  std::uint32_t process = 0;
  std::uint64_t started = 0;
  std::uint64_t exporter = 0;  // a random number of the process
  std::uint64_t board = 0;  // the name of the block
  std::uint64_t serial = 0;  // unique among the handles of a process
  std::uint32_t slot = 0;
  std::uint32_t reserved[5] = {};

  platform::ProcessId processId() const { return {process, started}; }
};
static_assert(sizeof(IpcHandle) == 64);

// A slot is taken or free. Its content is valid as long as its serial number is that of the handle.
struct MemorySlot {
  std::atomic<std::uint64_t> serial;
  std::atomic<std::uint64_t> backing;  // the name of the device's memory
  std::atomic<std::uint64_t> offset;  // of the allocation in it
  std::atomic<std::uint64_t> size;
  std::atomic<std::uint32_t> device;
};

// The marks of an event's recordings are reused in turn. They hold numbers of recordings, so a process that was late, or has died,
// cannot complete a recording that uses its mark by now.
struct EventSlot {
  static constexpr std::size_t kMarks = 16;

  struct Mark {
    std::atomic<std::uint64_t> done;  // the highest number that is complete
    std::atomic<std::uint64_t> author;
  };

  std::atomic<std::uint64_t> serial;
  std::atomic<std::uint64_t> recorded;  // the number of the latest recording
  std::atomic<std::uint32_t> device;
  Mark marks[kMarks];
};

struct Board {
  static constexpr std::uint64_t kMagic = 0x32302d6472616f62;  // changes with the layout
  static constexpr std::size_t kMemorySlots = 16384;
  static constexpr std::size_t kEventSlots = 4096;

  std::atomic<std::uint64_t> magic;
  std::atomic<std::uint64_t> exporter;
  MemorySlot memory[kMemorySlots];
  EventSlot events[kEventSlots];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace emulator
