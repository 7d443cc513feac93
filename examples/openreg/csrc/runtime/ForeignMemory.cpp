#include "runtime/ForeignMemory.h"

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
    static auto& registry = *new Registry;  // tensors may outlive every static object
    return registry;
  }

  // Null if the handle is not this process's, or its memory was freed meanwhile.
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
