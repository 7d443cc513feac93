#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

// A device library as another vendor might have written it, to try the seam on: C++ with exceptions, numbers for handles,
// addresses that are no pointers, the board named in each call, and each call done when it returns.
namespace quartz {

enum class reason {
  no_such_board = 1,
  out_of_memory,
  bad_address,
  bad_handle,
  not_timed,
};

class failure : public std::runtime_error {
 public:
  failure(reason why, const std::string& text) : std::runtime_error(text), why_(why) {}
  reason why() const noexcept {
    return why_;
  }

 private:
  reason why_;
};

struct board_facts {
  std::string title;
  std::uint64_t bytes;
  unsigned cores;
  unsigned generation;
  unsigned revision;
};

// Boards are numbered from 0. QUARTZ_BOARDS in the environment says how many there are, 2 by default.
unsigned boards();
board_facts describe(unsigned board);

// Memory of a board. An address means something to this library only: the host faults where it uses one as a pointer.
enum class address : std::uint64_t {};

address reserve(unsigned board, std::uint64_t bytes);
void give_back(address start);
std::uint64_t unused(unsigned board);

// Memory of the host that boards may read and write while the host does something else.
void* pin(std::uint64_t bytes);
void unpin(void* memory);

enum class kind { foreign,
                  pinned,
                  of_board };
struct place {
  kind what = kind::foreign;
  unsigned board = 0;
  address start{};  // of the reservation that holds it
};
place find(std::uint64_t anywhere);

// Work of a queue is done in order. Each board has one that is there from the start.
enum class queue : std::uint32_t {};

queue main_queue(unsigned board);
queue open_queue(unsigned board);
unsigned board_of(queue line);
bool idle(queue line);
void drain(queue line);

// Between addresses of boards and of the host, whichever they are.
void copy(queue line, std::uint64_t to, std::uint64_t from, std::uint64_t bytes);
void fill(queue line, address to, std::uint8_t value, std::uint64_t bytes);

// A mark is passed when the work before it in its queue is done; one that was never set counts as passed.
enum class mark : std::uint32_t {};

mark make_mark(bool timed);
void drop(mark point);
void set(mark point, queue line);
void hold(queue line, mark until);
bool passed(mark point);
void wait(mark point);
double seconds_between(mark begin, mark end);

}  // namespace quartz
