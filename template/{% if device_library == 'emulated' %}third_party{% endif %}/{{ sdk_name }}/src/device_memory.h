// The memory of one device: which parts of its address range are allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "import_window.h"
#include "platform/platform.h"
#include "status.h"

namespace emulator {

struct Allocation {
  std::uintptr_t base = 0;
  std::size_t size = 0;  // of the request

  bool covers(std::uintptr_t address, std::size_t bytes) const { return address - base <= size && bytes <= size - (address - base); }
};

// Best fit over blocks that tile the range; neighbours that are both free are one block. Thread-safe.
class DeviceMemory {
 public:
  static constexpr std::size_t kAlignment = 512;

  enum class Lookup {
    Found,
    None,
    Busy,
  };

  // `base` is the first device address; the backing is mapped at base + kernel_offset.
  DeviceMemory(
      std::uintptr_t base, std::size_t size, std::ptrdiff_t kernel_offset, platform::Backing backing, std::uintptr_t import_base,
      std::size_t import_size);

  // Memory of other processes. It counts neither as allocated nor as free.
  ImportWindow imports;

  Status allocate(std::size_t size, void** pointer);
  bool isStart(std::uintptr_t address);
  Status release(std::uintptr_t address);

  // Where live allocations start.
  std::vector<std::uintptr_t> allocations();

  // The live allocation that contains an address. It may belong to another process.
  bool find(std::uintptr_t address, Allocation* allocation);

  // Like find, for a signal handler: does not wait for the lock, because the interrupted thread may hold it.
  Lookup tryFind(std::uintptr_t address, Allocation* allocation);

  std::size_t size() const { return size_; }
  std::uintptr_t base() const { return base_; }
  platform::Backing backing() const { return backing_; }
  std::size_t freeBytes();

 private:
  enum class Use {
    Free,
    Live,
    Leaving,
  };
  struct Block {
    std::size_t extent;
    std::size_t requested;
    Use use;
  };
  using Blocks = std::map<std::uintptr_t, Block>;
  using Sizes = std::set<std::pair<std::size_t, std::uintptr_t>>;

  struct Place {
    Sizes::iterator block;
    std::uintptr_t address;
  };
  Place choose(std::size_t extent);
  Status outOfMemory(std::size_t size);
  bool lookUp(std::uintptr_t address, Allocation* allocation) const;
  void discard(std::uintptr_t begin, std::uintptr_t end);
  void discardBorders(std::uintptr_t begin, std::uintptr_t end, std::uintptr_t free_begin, std::uintptr_t free_end);

  const std::uintptr_t base_;
  const std::size_t size_;
  const std::ptrdiff_t kernel_offset_;
  const platform::Backing backing_;
  std::mutex mutex_;
  std::size_t free_;
  Blocks blocks_;  // by address
  Sizes sizes_;  // free ones, by size
};

}  // namespace emulator
