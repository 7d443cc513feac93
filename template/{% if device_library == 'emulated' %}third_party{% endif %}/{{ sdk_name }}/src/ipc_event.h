// An event that several processes record and wait for.
#pragma once

#include <cstdint>
#include <memory>

#include "completion.h"
#include "ipc.h"
#include "ipc_board.h"
#include "status.h"

namespace emulator {

// The event in one process. The recordings of all processes are numbered together, and the latest one counts. When the process that
// made the event destroys it, all recordings are complete. Thread-safe.
class SharedEvent : public std::enable_shared_from_this<SharedEvent> {
 public:
  // An event of this process. It is returned to `owner`.
  SharedEvent(Ipc& owner, const IpcHandle& handle, EventSlot& slot);

  // An event of another process.
  SharedEvent(std::shared_ptr<Peer> peer, const IpcHandle& handle, EventSlot& slot);

  ~SharedEvent();
  SharedEvent(const SharedEvent&) = delete;

  const IpcHandle& handle() const { return handle_; }
  int device() const { return static_cast<int>(slot_.device.load()); }

  std::uint64_t latest() const;
  bool done(std::uint64_t number) const;

  // Whether it will never be complete, because the process that recorded it has ended.
  bool isLost(std::uint64_t number) const;

  // A new recording, by this process.
  Status begin(std::uint64_t* number);
  void finish(std::uint64_t number);

  // Completes shortly after the recording, even if the recording is lost. Null if it is complete already.
  CompletionPtr watch(std::uint64_t number);

 private:
  bool alive() const { return slot_.serial.load() == handle_.serial; }
  EventSlot::Mark& markOf(std::uint64_t number) const { return slot_.marks[number % EventSlot::kMarks]; }

  Ipc* const owner_;
  const std::shared_ptr<Peer> peer_;
  const IpcHandle handle_;
  EventSlot& slot_;
};

}  // namespace emulator
