#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

#include <functional>
#include <map>
#include <vector>

#include "runtime/memory/BlockPool.h"

namespace openreg {

// Memory that only allocations routed to it may use. A captured graph needs it: its replay reads and writes the same
// addresses again, so nobody else may get them while the graph lives.
struct PrivatePool {
  explicit PrivatePool(c10::MempoolId_t id) : id(id) {}

  c10::MempoolId_t id;
  int users = 0;  // graphs that share it
  size_t segments = 0;
  BlockPool small{/*small=*/true, this};
  BlockPool large{/*small=*/false, this};
};

// The private pools of a device and the streams that allocate to them at the moment. Not thread safe.
class PrivatePools {
 public:
  using StreamFilter = std::function<bool(c10::Stream)>;

  // From now on allocations for the streams that the filter accepts come from the pool, which is made if it is new and
  // gets one more user.
  void begin(c10::MempoolId_t id, StreamFilter filter);
  void end(c10::MempoolId_t id);

  // One user less. A pool without users gives its segments back as soon as nothing lives in them.
  void release(c10::MempoolId_t id);

  bool routing() const {
    return !routes_.empty();
  }
  // Where an allocation for the stream belongs; nullptr: into the memory that all share.
  PrivatePool* poolOf(c10::Stream stream) const;

  PrivatePool* find(c10::MempoolId_t id);

  // Calls the function for each pool without users, and forgets those that hold no segment after it.
  template <class Function>
  void forEachUnused(Function&& function) {
    for (auto it = pools_.begin(); it != pools_.end();) {
      auto& pool = it->second;
      if (pool.users == 0) {
        function(pool);
      }
      it = pool.users == 0 && pool.segments == 0 ? pools_.erase(it) : std::next(it);
    }
  }

 private:
  struct Route {
    PrivatePool* pool;
    StreamFilter accepts;
  };

  std::map<c10::MempoolId_t, PrivatePool> pools_;
  std::vector<Route> routes_;
};

}  // namespace openreg
