#include "runtime/memory/BlockStore.h"

#include <algorithm>

#include "device/Device.h"
#include "device/Memory.h"
#include "runtime/Guard.h"
#include "runtime/memory/BlockSize.h"

namespace openreg {

void BlockStore::route(BlockRequest& request) const {
  if (private_pools_.routing()) [[unlikely]] {
    request.owner = private_pools_.poolOf(c10::Stream(c10::Stream::UNSAFE, c10::Device(kDeviceType, index_), request.stream));
  }
}

BlockPool& BlockStore::poolFor(const BlockRequest& request) {
  auto& pools = request.owner != nullptr ? request.owner->pools : shared_;
  return pools.of(sizeClassOf(request.size));
}

Block* BlockStore::takeFree(const BlockRequest& request) {
  auto& pool = poolFor(request);
  Block key(index_, request.stream, nullptr, request.size, &pool);
  const auto found = pool.free.lower_bound(&key);
  if (found == pool.free.end() || (*found)->stream != request.stream || !mayServe(**found, request.size)) {
    return nullptr;
  }
  Block* block = *found;
  pool.free.erase(found);
  report_.leftPool(*block);
  return block;
}

size_t BlockStore::allowed() const {
  return static_cast<size_t>(fraction_ * static_cast<double>(device::memoryInfo(index_).total));
}

Block* BlockStore::takeNewSegment(const BlockRequest& request) {
  const size_t size = segmentSizeFor(request.size);
  // If the device, or the fraction of it, is smaller than the usual segment, releasing memory cannot make room for one.
  return takeNewSegment(request, size <= allowed() ? size : request.size);
}

Block* BlockStore::takeNewSegment(const BlockRequest& request, size_t size) {
  if (fraction_ < 1 && report_.reservedBytes() + size > allowed()) {
    return nullptr;
  }
  const DeviceGuard guard(index_);
  void* address = device::allocate(size);
  if (address == nullptr) {
    return nullptr;
  }
  auto& pool = poolFor(request);
  auto* block = new Block(index_, request.stream, address, size, &pool);
  block->segment = new Segment{address, size, block, request.context, isOversize(size)};
  segments_.insert(block->segment);
  if (pool.owner != nullptr) {
    ++pool.owner->segments;
  }
  report_.madeSegment(*block, request.context);
  return block;
}

void BlockStore::split(Block* block, size_t size) {
  if (!maySplit(*block, size)) {
    return;
  }
  void* address = static_cast<char*>(block->address) + size;
  auto* remainder = new Block(index_, block->stream, address, block->size - size, block->pool);
  remainder->segment = block->segment;
  remainder->previous = block;
  remainder->next = block->next;
  remainder->freed_at = block->freed_at;
  if (block->next != nullptr) {
    block->next->previous = remainder;
  }
  block->next = remainder;
  block->size = size;
  block->pool->free.insert(remainder);
  report_.enteredPool(*remainder);
}

void BlockStore::markAllocated(Block* block, BlockRequest& request) {
  block->allocated = true;
  block->requested = request.nbytes;
  block->oversize = isOversize(block->size);
  report_.allocated(*block, std::move(request.context));
}

void BlockStore::markFreed(Block* block, const Context& context) {
  block->allocated = false;
  report_.freed(*block, context);
}

void BlockStore::markInactive(Block* block, const Context& context) {
  block->freed_at = ++clock_;
  report_.inactive(*block, context);
  if (block->context) [[unlikely]] {
    block->context = nullptr;
  }
}

void BlockStore::giveBack(Block* block, const Context& context) {
  markInactive(block, context);
  if (!recent_.push(block)) {
    merge(block);
  }
}

void BlockStore::retire(Block* block) {
  markInactive(block, block->context);
  merge(block);
}

void BlockStore::mergeRecent() {
  recent_.drain([this](Block* block) { merge(block); });
}

// Joins a free block with its free neighbors and puts the result into its pool.
void BlockStore::merge(Block* block) {
  for (Block* neighbour : {block->previous, block->next}) {
    if (neighbour != nullptr && !neighbour->allocated && !neighbour->binned && block->pool->free.erase(neighbour) == 1) {
      report_.leftPool(*neighbour);
      join(block, neighbour);
    }
  }
  block->pool->free.insert(block);
  report_.enteredPool(*block);
}

void BlockStore::join(Block* block, Block* neighbour) {
  if (neighbour == block->previous) {
    block->address = neighbour->address;
    block->previous = neighbour->previous;
    (block->previous != nullptr ? block->previous->next : block->segment->first) = block;
  } else {
    block->next = neighbour->next;
    if (block->next != nullptr) {
      block->next->previous = block;
    }
  }
  block->size += neighbour->size;
  block->freed_at = std::max(block->freed_at, neighbour->freed_at);
  delete neighbour;
}

void BlockStore::takeWholeSegments(BlockPool& pool, std::vector<Block*>& blocks, size_t least) {
  for (auto it = pool.free.begin(); it != pool.free.end();) {
    if ((*it)->isSplit() || (*it)->size < least) {
      ++it;
    } else {
      blocks.push_back(*it);
      it = pool.free.erase(it);
    }
  }
}

void BlockStore::forgetSegment(Block* block, const Context& context) {
  if (block->pool->owner != nullptr) {
    --block->pool->owner->segments;
  }
  report_.releasedSegment(*block, context);
  segments_.erase(block->segment);
  delete block->segment;
  delete block;
}

}  // namespace openreg
