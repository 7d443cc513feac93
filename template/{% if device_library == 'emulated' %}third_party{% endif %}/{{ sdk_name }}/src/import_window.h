// The device addresses at which memory of other processes appears.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "platform/platform.h"
#include "status.h"

namespace emulator {

struct Allocation;

// An allocation of another process. The identity is never reused.
struct ImportKey {
  std::uint64_t exporter = 0;
  std::uint64_t serial = 0;

  bool operator==(const ImportKey&) const = default;
};

// The second part of a device's address range. Like device memory, it is mapped at the kernel addresses only. Memory
// that is opened twice is mapped once, and needs two calls to close. Thread-safe.
class ImportWindow {
 public:
  ImportWindow(std::uintptr_t base, std::size_t size, std::ptrdiff_t kernel_offset)
      : base_(base), size_(size), kernel_offset_(kernel_offset) {}

  bool contains(std::uintptr_t address) const { return address - base_ < size_; }

  // True if it was open already: sets *pointer, and needs one more close.
  bool reopen(const ImportKey& key, void** pointer);

  // Maps `size` bytes at `offset` in the exporter's memory.
  Status open(const ImportKey& key, platform::Backing backing, std::size_t offset, std::size_t size, void** pointer);

  bool isStart(std::uintptr_t address);
  Status close(std::uintptr_t address);
  void closeAll();

  // See DeviceMemory.
  bool find(std::uintptr_t address, Allocation* allocation);
  bool tryFind(std::uintptr_t address, Allocation* allocation, bool* busy);

 private:
  struct Import {
    std::uintptr_t begin;  // of the pages; the address of the memory is the key in the map
    std::size_t extent;
    std::size_t size;
    ImportKey key;
    int uses;
  };

  std::uintptr_t choose(std::size_t offset, std::size_t extent) const;
  void unmap(const Import& import) const;
  bool lookUp(std::uintptr_t address, Allocation* allocation) const;

  const std::uintptr_t base_;
  const std::size_t size_;
  const std::ptrdiff_t kernel_offset_;
  std::mutex mutex_;
  std::map<std::uintptr_t, Import> imports_;
};

}  // namespace emulator
