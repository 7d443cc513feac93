#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

#include <functional>
#include <map>
#include <vector>

#include "runtime/memory/BlockPool.h"

namespace openreg {

// Memory that only allocations routed to it may use. A captured graph needs it: each replay reads and writes the same
// addresses, so other tensors must not get them while the graph exists.
struct PrivatePool {
  explicit PrivatePool(c10::MempoolId_t id) : id(id) {}

  c10::MempoolId_t id;
  int users = 0;  // graphs that share it
  size_t segments = 0;
  BlockPools pools{this};
};

// The private pools of a device, and the streams that presently allocate from them. BlockStore owns it. Not thread-safe: the cache is
// locked.
class PrivatePools {
 public:
  using StreamFilter = std::function<bool(c10::Stream)>;

  // Routes allocations on the streams that the filter accepts to the pool. Creates the pool if needed, and adds a user to it.
  void begin(c10::MempoolId_t id, StreamFilter filter);
  void end(c10::MempoolId_t id);

  // Removes a user. A pool without users releases its segments as soon as they are unused.
  void release(c10::MempoolId_t id);

  bool routing() const {
    return !routes_.empty();
  }
  // The pool for an allocation on the stream; nullptr for the shared memory.
  PrivatePool* poolOf(c10::Stream stream) const;

  PrivatePool* find(c10::MempoolId_t id);

  // Calls the function for each pool without users, and then removes those without segments.
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
