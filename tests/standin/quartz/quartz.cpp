#include "quartz.hpp"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace quartz {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::uint64_t kBoardBytes = std::uint64_t{4} << 30;
constexpr std::uint64_t kAlignment = 512;
// Between an address of a board and the host memory that stands for it: no processor can follow such a pointer.
constexpr std::uint64_t kDistance = std::uint64_t{1} << 52;

struct block {
  std::uint64_t bytes;
  kind what;
  unsigned board;
};

struct mark_state {
  bool timed;
  bool set = false;
  unsigned board = 0;
  clock::time_point when{};
};

class machine {
 public:
  static machine& instance() {
    static auto& only = *new machine;
    return only;
  }

  std::mutex mutex;
  std::map<std::uint64_t, block> blocks;  // by where they start
  std::vector<std::uint64_t> used;  // bytes of each board
  std::vector<unsigned> queues;  // board of each
  std::unordered_map<std::uint32_t, mark_state> marks;
  std::uint32_t next_mark = 0;

 private:
  machine() {
    const char* setting = std::getenv("QUARTZ_BOARDS");
    used.resize(setting == nullptr ? 2 : std::strtoul(setting, nullptr, 10));
    for (unsigned board = 0; board < used.size(); ++board) {
      queues.push_back(board);
    }
  }
};

void check_board(unsigned board) {
  if (board >= boards()) {
    throw failure(reason::no_such_board, "there is no board " + std::to_string(board));
  }
}

// The block around an address, or blocks.end().
auto around(machine& m, std::uint64_t anywhere) {
  auto next = m.blocks.upper_bound(anywhere);
  if (next == m.blocks.begin()) {
    return m.blocks.end();
  }
  --next;
  return anywhere - next->first < next->second.bytes ? next : m.blocks.end();
}

// The host's pointer for an address, all of whose bytes have to be in one block if it is a board's.
char* reach(machine& m, std::uint64_t anywhere, std::uint64_t bytes) {
  const auto found = around(m, anywhere);
  if (found == m.blocks.end()) {
    if (anywhere >= kDistance) {
      throw failure(reason::bad_address, "no board has memory at " + std::to_string(anywhere));
    }
    return reinterpret_cast<char*>(anywhere);
  }
  const auto& [start, where] = *found;
  if (anywhere - start + bytes > where.bytes) {
    throw failure(reason::bad_address, std::to_string(bytes) + " bytes reach beyond the end of a reservation");
  }
  return reinterpret_cast<char*>(where.what == kind::of_board ? anywhere - kDistance : anywhere);
}

void* take(std::uint64_t bytes) {
  void* memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (memory == nullptr) {
    throw failure(reason::out_of_memory, "the host has no " + std::to_string(bytes) + " bytes");
  }
  return memory;
}

unsigned board_of_locked(const machine& m, queue line) {
  const auto number = static_cast<std::uint32_t>(line);
  if (number >= m.queues.size()) {
    throw failure(reason::bad_handle, "there is no queue " + std::to_string(number));
  }
  return m.queues[number];
}

mark_state& state_of(machine& m, mark point) {
  const auto found = m.marks.find(static_cast<std::uint32_t>(point));
  if (found == m.marks.end()) {
    throw failure(reason::bad_handle, "there is no mark " + std::to_string(static_cast<std::uint32_t>(point)));
  }
  return found->second;
}

}  // namespace

unsigned boards() {
  return static_cast<unsigned>(machine::instance().used.size());
}

board_facts describe(unsigned board) {
  check_board(board);
  return {"Quartz Q1", kBoardBytes, 8, 1, 4};
}

address reserve(unsigned board, std::uint64_t bytes) {
  check_board(board);
  auto& m = machine::instance();
  const std::lock_guard lock(m.mutex);
  if (bytes > kBoardBytes - m.used[board]) {
    throw failure(reason::out_of_memory, "board " + std::to_string(board) + " has no " + std::to_string(bytes) + " bytes left");
  }
  const auto start = reinterpret_cast<std::uint64_t>(take(bytes)) + kDistance;
  m.blocks[start] = {bytes, kind::of_board, board};
  m.used[board] += bytes;
  return address{start};
}

void give_back(address start) {
  auto& m = machine::instance();
  const std::lock_guard lock(m.mutex);
  const auto found = m.blocks.find(static_cast<std::uint64_t>(start));
  if (found == m.blocks.end() || found->second.what != kind::of_board) {
    throw failure(reason::bad_address, "this is not the start of a reservation");
  }
  m.used[found->second.board] -= found->second.bytes;
  std::free(reinterpret_cast<void*>(found->first - kDistance));
  m.blocks.erase(found);
}

std::uint64_t unused(unsigned board) {
  check_board(board);
  auto& m = machine::instance();
  const std::lock_guard lock(m.mutex);
  return kBoardBytes - m.used[board];
}

void* pin(std::uint64_t bytes) {
  auto& m = machine::instance();
  const std::lock_guard lock(m.mutex);
  void* memory = take(bytes);
  m.blocks[reinterpret_cast<std::uint64_t>(memory)] = {bytes, kind::pinned, 0};
  return memory;
}

void unpin(void* memory) {
  auto& m = machine::instance();
  const std::lock_guard lock(m.mutex);
  if (m.blocks.erase(reinterpret_cast<std::uint64_t>(memory)) == 0) {
    throw failure(reason::bad_address, "this memory was not pinned");
  }
  std::free(memory);
}

place find(std::uint64_t anywhere) {
  auto& m = machine::instance();
  const std::lock_guard lock(m.mutex);
  const auto found = around(m, anywhere);
  return found == m.blocks.end() ? place{} : place{found->second.what, found->second.board, address{found->first}};
}

queue main_queue(unsigned board) {
  check_board(board);
  return queue{board};
}

queue open_queue(unsigned board) {
  check_board(board);
  auto& m = machine::instance();
  const std::lock_guard lock(m.mutex);
  m.queues.push_back(board);
  return queue{static_cast<std::uint32_t>(m.queues.size() - 1)};
}

unsigned board_of(queue line) {
  auto& m = machine::instance();
  const std::lock_guard lock(m.mutex);
  return board_of_locked(m, line);
}

bool idle(queue line) {
  board_of(line);
  return true;
}

void drain(queue line) {
  board_of(line);
}

void copy(queue line, std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  auto& m = machine::instance();
  char* target = nullptr;
  const char* source = nullptr;
  {
    const std::lock_guard lock(m.mutex);
    board_of_locked(m, line);
    target = reach(m, to, bytes);
    source = reach(m, from, bytes);
  }
  std::memmove(target, source, bytes);
}

void fill(queue line, address to, std::uint8_t value, std::uint64_t bytes) {
  auto& m = machine::instance();
  char* target = nullptr;
  {
    const std::lock_guard lock(m.mutex);
    board_of_locked(m, line);
    target = reach(m, static_cast<std::uint64_t>(to), bytes);
  }
  std::memset(target, value, bytes);
}

mark make_mark(bool timed) {
  auto& m = machine::instance();
  const std::lock_guard lock(m.mutex);
  m.marks[m.next_mark] = mark_state{timed};
  return mark{m.next_mark++};
}

void drop(mark point) {
  auto& m = machine::instance();
  const std::lock_guard lock(m.mutex);
  state_of(m, point);
  m.marks.erase(static_cast<std::uint32_t>(point));
}

void set(mark point, queue line) {
  auto& m = machine::instance();
  const std::lock_guard lock(m.mutex);
  auto& state = state_of(m, point);
  state.board = board_of_locked(m, line);
  state.set = true;
  state.when = clock::now();
}

void hold(queue line, mark until) {
  auto& m = machine::instance();
  const std::lock_guard lock(m.mutex);
  board_of_locked(m, line);
  state_of(m, until);
}

bool passed(mark point) {
  auto& m = machine::instance();
  const std::lock_guard lock(m.mutex);
  state_of(m, point);
  return true;
}

void wait(mark point) {
  passed(point);
}

double seconds_between(mark begin, mark end) {
  auto& m = machine::instance();
  const std::lock_guard lock(m.mutex);
  const auto& first = state_of(m, begin);
  const auto& last = state_of(m, end);
  if (!first.timed || !last.timed || !first.set || !last.set) {
    throw failure(reason::not_timed, "a mark records a timestamp only if it was made timed, and was set");
  }
  if (first.board != last.board) {
    throw failure(reason::not_timed, "the clocks of two boards do not agree");
  }
  return std::chrono::duration<double>(last.when - first.when).count();
}

}  // namespace quartz
