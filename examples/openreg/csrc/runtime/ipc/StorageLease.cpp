#include "runtime/ipc/StorageLease.h"

#include <c10/util/Exception.h>

#include <limits>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "device/Memory.h"
#include "device/Waiting.h"
#include "runtime/CopyStream.h"
#include "runtime/Guard.h"
#include "runtime/ipc/Process.h"
#include "runtime/memory/Reclaim.h"

namespace openreg {
namespace {

struct Entry {
  uint64_t serial = 0;
  uint64_t holder = 0;  // a process, or one of:
};
constexpr uint64_t kReturned = 0;
constexpr uint64_t kUnclaimed = ~uint64_t{0};

// Waits for no work of the device's other streams. Synchronous, because host memory on the stack is pageable.
void copyNow(c10::DeviceIndex index, void* dst, const void* src, size_t nbytes) {
  device::copyAsync(dst, src, nbytes, copyStream(index));
}

// One allocation full of leases. Not thread-safe.
class Table {
 public:
  static constexpr size_t kPlaces = 4096;

  explicit Table(c10::DeviceIndex device) : device_(device) {
    const DeviceGuard device_guard(c10::Device(kDeviceType, device));
    base_ = static_cast<Entry*>(device::allocate(kPlaces * sizeof(Entry)));
    TORCH_CHECK_WITH(
        OutOfMemoryError, base_ != nullptr, "sending a tensor to another process needs ", kPlaces * sizeof(Entry),
        " bytes of device memory, and the device has no memory left");
    handle_ = exportAllocation(base_);
  }

  // The address of a place. `index` comes from a message and may be any number, so it is checked against the size of the table.
  static size_t offsetOf(int64_t index) {
    return index >= 0 && static_cast<size_t>(index) < kPlaces ? static_cast<size_t>(index) * sizeof(Entry)
                                                              : std::numeric_limits<size_t>::max();
  }

  bool full() const {
    return free_.empty() && storages_.size() == kPlaces;
  }

  LeaseName issue(uint64_t serial, c10::Storage storage) {
    if (free_.empty()) {
      free_.push_back(storages_.size());
      storages_.emplace_back();
    }
    const size_t index = free_.back();
    const Entry entry{serial, kUnclaimed};
    copyNow(device_, base_ + index, &entry, sizeof(entry));
    free_.pop_back();
    storages_[index] = std::move(storage);
    return {handle_, static_cast<int64_t>(index), serial};
  }

  void collect(std::vector<c10::Storage>& returned) {
    if (free_.size() == storages_.size()) {
      return;
    }
    std::vector<Entry> entries(storages_.size());
    copyNow(device_, entries.data(), base_, entries.size() * sizeof(Entry));
    std::map<uint64_t, bool> running;
    for (size_t i = 0; i < entries.size(); ++i) {
      const uint64_t holder = entries[i].holder;
      if (!storages_[i] || holder == kUnclaimed) {
        continue;
      }
      if (holder != kReturned) {
        const auto [known, is_new] = running.try_emplace(holder, false);
        if (is_new) {
          known->second = isProcessRunning(holder);
        }
        if (known->second) {
          continue;
        }
      }
      returned.push_back(std::exchange(storages_[i], c10::Storage()));
      free_.push_back(i);
    }
  }

 private:
  const c10::DeviceIndex device_;
  Entry* base_ = nullptr;
  std::string handle_;
  std::vector<c10::Storage> storages_;  // by place; null if free
  std::vector<size_t> free_;
};

struct Outbox {
  std::mutex mutex;
  uint64_t last_serial = 0;
  std::map<c10::DeviceIndex, std::vector<std::unique_ptr<Table>>> tables;

  // Never destroyed, because receivers may use sent memory as long as this process runs.
  static Outbox& instance() {
    static auto& outbox = *new Outbox;
    return outbox;
  }
};

[[maybe_unused]] const bool reclaimer_added = [] {
  addReclaimer(&reclaimLeases);
  return true;
}();

}  // namespace

LeaseName grantLease(c10::DeviceIndex device, c10::Storage storage) {
  auto& outbox = Outbox::instance();
  const auto guard = device::lockMutex(outbox.mutex);
  auto& tables = outbox.tables[device];
  for (const auto& table : tables) {
    if (!table->full()) {
      return table->issue(++outbox.last_serial, std::move(storage));
    }
  }
  tables.push_back(std::make_unique<Table>(device));
  return tables.back()->issue(++outbox.last_serial, std::move(storage));
}

void reclaimLeases(c10::DeviceIndex device) {
  std::vector<c10::Storage> returned;  // freed without the lock, because freeing may run any code
  auto& outbox = Outbox::instance();
  const auto guard = device::lockMutex(outbox.mutex);
  if (const auto found = outbox.tables.find(device); found != outbox.tables.end()) {
    for (const auto& table : found->second) {
      table->collect(returned);
    }
  }
}

Lease::Lease(c10::DeviceIndex device, const LeaseName& name)
    : device_(device), table_(device, name.table), place_(static_cast<char*>(table_.at(Table::offsetOf(name.index), sizeof(Entry)))) {
  Entry entry;
  copyNow(device_, &entry, place_, sizeof(entry));
  TORCH_CHECK(
      entry.serial == name.serial && entry.holder == kUnclaimed,
      "this message with a tensor was received before; each message can be received once, so send the tensor to each process that needs "
      "it");
  writeHolder(currentProcess());
}

Lease::~Lease() {
  try {
    writeHolder(kReturned);
  } catch (const std::exception& error) {
    TORCH_WARN("the sender of a tensor could not be notified that it was freed: ", error.what());
  }
}

void Lease::writeHolder(uint64_t holder) {
  copyNow(device_, place_ + offsetof(Entry, holder), &holder, sizeof(holder));
}

}  // namespace openreg
