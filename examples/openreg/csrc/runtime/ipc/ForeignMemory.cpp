#include "runtime/ipc/ForeignMemory.h"

#include <c10/util/Exception.h>

#include <map>
#include <mutex>
#include <utility>

#include "device/Ipc.h"
#include "device/Memory.h"

namespace openreg {
namespace {

struct Opened {
  void* base = nullptr;
  int users = 0;
};

struct Registry {
  std::mutex mutex;
  std::map<std::string, Opened> opened;
  std::map<void*, std::string> exported;

  static Registry& instance() {
    static auto& registry = *new Registry;  // never destroyed, because tensors may outlive every static object
    return registry;
  }

  // Null if another process created the handle, or if its memory was freed.
  void* ownBase(const std::string& handle) const {
    for (const auto& [base, own] : exported) {
      if (own == handle) {
        return device::pointerInfo(base).base == base && device::exportMemory(base) == handle ? base : nullptr;
      }
    }
    return nullptr;
  }
};

}  // namespace

std::string exportAllocation(void* base) {
  auto& registry = Registry::instance();
  const std::lock_guard<std::mutex> guard(registry.mutex);
  return registry.exported[base] = device::exportMemory(base);
}

ForeignMemory::ForeignMemory(c10::DeviceIndex device, std::string handle) : ForeignMemory(std::move(handle)) {
  const auto info = device::pointerInfo(base_);
  TORCH_CHECK_VALUE(
      info.device == device, "this message from another process names device ", static_cast<int>(device), " for memory of device ",
      info.device, "; the message was altered");
  size_ = info.size;
}

ForeignMemory::ForeignMemory(std::string handle) : handle_(std::move(handle)) {
  auto& registry = Registry::instance();
  const std::lock_guard<std::mutex> guard(registry.mutex);
  base_ = registry.ownBase(handle_);
  if (base_ != nullptr) {
    return;
  }
  auto& entry = registry.opened[handle_];
  if (entry.users == 0) {
    try {
      entry.base = device::openMemory(handle_);
    } catch (...) {
      registry.opened.erase(handle_);
      throw;
    }
  }
  ++entry.users;
  base_ = entry.base;
  opened_ = true;
}

void* ForeignMemory::at(size_t offset, size_t nbytes) const {
  TORCH_CHECK_VALUE(
      nbytes <= size_ && offset <= size_ - nbytes, "this message from another process names ", nbytes, " bytes at offset ", offset,
      " of an allocation of ", size_, " bytes; the message was altered");
  return static_cast<char*>(base_) + offset;
}

ForeignMemory::~ForeignMemory() {
  if (!opened_) {
    return;
  }
  try {
    auto& registry = Registry::instance();
    const std::lock_guard<std::mutex> guard(registry.mutex);
    const auto entry = registry.opened.find(handle_);
    if (--entry->second.users == 0) {
      registry.opened.erase(entry);
      device::closeMemory(base_);
    }
  } catch (const std::exception& error) {
    TORCH_WARN("memory of another process could not be closed: ", error.what());
  }
}

}  // namespace openreg
