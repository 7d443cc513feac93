#include "device/Device.h"

#include "device/Handles.h"
#include "device/Waiting.h"

namespace acme::device {
namespace {

// The SDK has no current board.
thread_local constinit unsigned current_board = 0;

}  // namespace

void initialize() {
  guarded([] { quartz::boards(); });
}

int count() noexcept {
  try {
    return static_cast<int>(quartz::boards());
  } catch (const std::exception&) {
    return 0;
  }
}

int current() {
  return static_cast<int>(current_board);
}

void setCurrent(int index) {
  guarded([&] { quartz::main_queue(static_cast<unsigned>(index)); });  // raises if there is no such board
  current_board = static_cast<unsigned>(index);
}

void uncheckedSetCurrent(int index) noexcept {
  warned([&] { setCurrent(index); });
}

void synchronize(int index) {
  const Waiting waiting;
  guarded([&] { quartz::drain(quartz::main_queue(static_cast<unsigned>(index))); });  // other queues have nothing pending either
}

Properties properties(int index) {
  const auto facts = guarded([&] { return quartz::describe(static_cast<unsigned>(index)); });
  Properties result;
  result.name = facts.title;
  result.total_memory = facts.bytes;
  result.allocation_alignment = 512;
  result.multi_processor_count = static_cast<int>(facts.cores);
  result.major = static_cast<int>(facts.generation);
  result.minor = static_cast<int>(facts.revision);
  return result;
}

MemoryInfo memoryInfo(int index) {
  const auto board = static_cast<unsigned>(index);
  return guarded([&] { return MemoryInfo{quartz::unused(board), quartz::describe(board).bytes}; });
}

bool canAccessPeer(int /*index*/, int /*peer*/) {
  return true;
}

}  // namespace acme::device
