#include "device/substitutes/Fill.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>

#include "device/Capabilities.h"
#include "device/Memory.h"

namespace openreg::device {
namespace {

constexpr size_t kPattern = 4096;  // bytes

// Host memory that holds the byte kPattern times. Kept until the process ends, because copies may read it at any time. Pinned if the
// device has pinned memory, so that the copy does not wait.
const void* patternOf(unsigned char value) {
  static std::mutex mutex;
  static std::array<void*, 256> patterns{};
  const std::lock_guard<std::mutex> guard(mutex);
  void*& pattern = patterns.at(value);
  if (pattern == nullptr) {
    void* memory = hasCapability("pinned_memory") ? hostAllocate(kPattern) : nullptr;
    if (memory == nullptr) {
      memory = ::operator new(kPattern);
    }
    pattern = std::memset(memory, value, kPattern);
  }
  return pattern;
}

}  // namespace

void fillByCopies(void* dst, int value, size_t nbytes, StreamHandle stream) {
  auto* bytes = static_cast<char*>(dst);
  size_t filled = std::min(nbytes, kPattern);
  copyAsync(bytes, patternOf(static_cast<unsigned char>(value)), filled, stream);
  while (filled < nbytes) {
    const size_t more = std::min(filled, nbytes - filled);
    copyAsync(bytes + filled, bytes, more, stream);
    filled += more;
  }
}

}  // namespace openreg::device
