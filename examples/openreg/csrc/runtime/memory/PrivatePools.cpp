#include "runtime/memory/PrivatePools.h"

#include <algorithm>

namespace openreg {
namespace {

std::string nameOf(c10::MempoolId_t id) {
  return c10::str("memory pool (", id.first, ", ", id.second, ")");
}

}  // namespace

void PrivatePools::begin(c10::MempoolId_t id, StreamFilter filter) {
  TORCH_CHECK_VALUE(id != c10::MempoolId_t(0, 0), "(0, 0) is the id of the shared memory; create a new id for a private memory pool");
  for (const auto& route : routes_) {
    TORCH_CHECK(route.pool->id != id, "allocations already go to ", nameOf(id), "; end this before you begin again");
  }
  auto& pool = pools_.try_emplace(id, id).first->second;
  ++pool.users;
  routes_.push_back({&pool, std::move(filter)});
}

void PrivatePools::end(c10::MempoolId_t id) {
  const auto found = std::find_if(routes_.begin(), routes_.end(), [&](const Route& route) { return route.pool->id == id; });
  TORCH_CHECK(found != routes_.end(), "cannot end allocations to ", nameOf(id), ", because none go to it on this device");
  routes_.erase(found);
}

void PrivatePools::release(c10::MempoolId_t id) {
  auto* pool = find(id);
  TORCH_CHECK(pool != nullptr && pool->users > 0, nameOf(id), " has no users on this device: it was released more often than it was begun");
  --pool->users;
}

PrivatePool* PrivatePools::poolOf(c10::Stream stream) const {
  for (const auto& route : routes_) {
    if (route.accepts(stream)) {
      return route.pool;
    }
  }
  return nullptr;
}

PrivatePool* PrivatePools::find(c10::MempoolId_t id) {
  const auto found = pools_.find(id);
  return found == pools_.end() ? nullptr : &found->second;
}

}  // namespace openreg
