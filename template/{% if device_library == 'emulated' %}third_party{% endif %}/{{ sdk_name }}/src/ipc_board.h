// What a process shows to others: a block of shared memory in which they look up what its handles stand for.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "platform/platform.h"

namespace emulator {

// What the bytes of a handle of the C interface mean.
struct IpcHandle {
  std::uint32_t magic = 0;
  std::uint32_t process = 0;
  std::uint64_t started = 0;
  std::uint64_t exporter = 0;  // a random number of the process
  std::uint64_t board = 0;  // the name of the block
  std::uint64_t serial = 0;  // no two handles of a process have the same
  std::uint32_t slot = 0;
  std::uint32_t reserved[5] = {};

  platform::ProcessId processId() const { return {process, started}; }
};
static_assert(sizeof(IpcHandle) == 64);

// A slot is taken or free; its content holds as long as the serial number is the one of the handle.
struct MemorySlot {
  std::atomic<std::uint64_t> serial;
  std::atomic<std::uint64_t> backing;  // the name of the device's memory
  std::atomic<std::uint64_t> offset;  // of the allocation in it
  std::atomic<std::uint64_t> size;
  std::atomic<std::uint32_t> device;
};

// The marks of the recordings of an event are used in turn, again and again: a process that was late, or has died, cannot make a
// mistake about who owns the slot by now.
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
