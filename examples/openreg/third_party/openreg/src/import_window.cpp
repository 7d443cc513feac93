#include "import_window.h"

#include "device_memory.h"

namespace emulator {

bool ImportWindow::reopen(const ImportKey& key, void** pointer) {
  const std::lock_guard lock(mutex_);
  for (auto& [address, import] : imports_) {
    if (import.key == key) {
      ++import.uses;
      *pointer = reinterpret_cast<void*>(address);
      return true;
    }
  }
  return false;
}

// The first gap that is large enough, or 0. A large piece has the same offset from a huge page as in the exporter's memory, so
// that both can use the same huge pages. A page without access follows each piece.
std::uintptr_t ImportWindow::choose(std::size_t offset, std::size_t extent) const {
  const std::size_t unit = extent >= platform::kHugePage ? platform::kHugePage : platform::mapUnit();
  const auto fit = [&](std::uintptr_t from) { return from + (offset - from) % unit; };
  std::uintptr_t place = fit(base_);
  for (const auto& [address, import] : imports_) {
    if (place + extent < import.begin) {
      return place;
    }
    place = fit(import.begin + import.extent + platform::pageSize());
  }
  return place + extent < base_ + size_ ? place : 0;
}

Status ImportWindow::open(const ImportKey& key, platform::Backing backing, std::size_t offset, std::size_t size, void** pointer) {
  if (reopen(key, pointer)) {
    return Status::Success;
  }
  const std::size_t page = platform::pageSize();
  const std::size_t begin = offset / platform::mapUnit() * platform::mapUnit();
  const std::size_t extent = (offset + size + page - 1) / page * page - begin;
  const std::lock_guard lock(mutex_);
  const std::uintptr_t place = choose(begin, extent);
  if (place == 0) {
    return fail(
        Status::MemoryAllocation, "no addresses are left for %zu bytes of another process; close some memory that was opened before", size);
  }
  const std::uintptr_t address = place + (offset - begin);
  const auto entry = imports_.emplace(address, Import{place, extent, size, key, 1}).first;
  if (!platform::mapPart(backing, place + static_cast<std::uintptr_t>(kernel_offset_), begin, extent)) {
    imports_.erase(entry);
    return fail(
        Status::MemoryAllocation, "the system does not map %zu bytes of another process; close some memory that was opened before", size);
  }
  *pointer = reinterpret_cast<void*>(address);
  return Status::Success;
}

bool ImportWindow::isStart(std::uintptr_t address) {
  const std::lock_guard lock(mutex_);
  return imports_.contains(address);
}

Status ImportWindow::close(std::uintptr_t address) {
  const std::lock_guard lock(mutex_);
  const auto it = imports_.find(address);
  if (it == imports_.end()) {
    return fail(
        Status::InvalidPointer, "no memory of another process is open at %#zx; it was closed before, or is inside of an allocation",
        static_cast<std::size_t>(address));
  }
  if (--it->second.uses == 0) {
    unmap(it->second);
    imports_.erase(it);
  }
  return Status::Success;
}

void ImportWindow::closeAll() {
  const std::lock_guard lock(mutex_);
  for (const auto& entry : imports_) {
    unmap(entry.second);
  }
  imports_.clear();
}

void ImportWindow::unmap(const Import& import) const {
  platform::unmapPart(import.begin + static_cast<std::uintptr_t>(kernel_offset_), import.extent);
}

bool ImportWindow::lookUp(std::uintptr_t address, Allocation* allocation) const {
  auto it = imports_.upper_bound(address);
  if (it == imports_.begin()) {
    return false;
  }
  --it;
  if (address - it->first >= it->second.size) {
    return false;
  }
  *allocation = {it->first, it->second.size};
  return true;
}

bool ImportWindow::find(std::uintptr_t address, Allocation* allocation) {
  const std::lock_guard lock(mutex_);
  return lookUp(address, allocation);
}

bool ImportWindow::tryFind(std::uintptr_t address, Allocation* allocation, bool* busy) {
  *busy = !mutex_.try_lock();
  if (*busy) {
    return false;
  }
  const bool found = lookUp(address, allocation);
  mutex_.unlock();
  return found;
}

}  // namespace emulator
