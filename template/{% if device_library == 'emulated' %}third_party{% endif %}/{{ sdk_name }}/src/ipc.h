// Memory and events that are shared with other processes.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "ipc_board.h"
#include "status.h"

namespace emulator {

class Runtime;
struct Allocation;
struct Device;
class SharedEvent;

// The board of another process, for as long as it is needed.
class Peer {
 public:
  // Not for handles of this process.
  static Status open(const IpcHandle& handle, std::shared_ptr<Peer>* peer);

  explicit Peer(Board* board) : board(board) {}
  ~Peer();
  Peer(const Peer&) = delete;

  Board* const board;
};

// Thread-safe.
class Ipc {
 public:
  // Returns the same handle each time, until the allocation is withdrawn.
  Status exportMemory(Device& device, const Allocation& allocation, IpcHandle* handle);

  // Call this before an allocation is freed. Its handles become invalid.
  void withdraw(std::uintptr_t address);

  Status openMemory(Runtime& runtime, const IpcHandle& handle, void** pointer);

  // A new event for a device.
  Status shareEvent(int device, std::shared_ptr<SharedEvent>* event);
  void takeBackEvent(std::uint32_t slot);

  Status openEvent(Runtime& runtime, const IpcHandle& handle, std::shared_ptr<SharedEvent>* event);

 private:
  static constexpr std::uint32_t kMemoryMagic = 0x4d637069;
  static constexpr std::uint32_t kEventMagic = 0x45637069;

  Status requireBoard();
  Status findPeer(const IpcHandle& handle, std::shared_ptr<Peer>* peer);
  IpcHandle makeHandle(std::uint32_t magic, std::uint32_t slot, std::uint64_t serial) const;

  std::mutex mutex_;
  Board* board_ = nullptr;
  std::uint64_t board_name_ = 0;
  std::uint64_t exporter_ = 0;
  platform::ProcessId process_;
  std::uint64_t last_serial_ = 0;

  std::atomic<bool> has_exports_{false};
  std::map<std::uintptr_t, std::uint32_t> exports_;  // slot by address
  std::vector<std::uint32_t> free_slots_;

  std::uint32_t event_count_ = 0;
  std::vector<std::uint32_t> free_events_;
};

}  // namespace emulator
