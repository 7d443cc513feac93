#pragma once

#include <set>

#include "runtime/memory/Block.h"
#include "runtime/memory/BlockSize.h"

namespace openreg {

// Free blocks of one size class, ordered so that lower_bound finds the best fit on a stream.
struct BlockPool {
  struct Order {
    bool operator()(const Block* a, const Block* b) const {
      if (a->stream != b->stream) {
        return a->stream < b->stream;
      }
      if (a->size != b->size) {
        return a->size < b->size;
      }
      return a->address < b->address;
    }
  };

  BlockPool(SizeClass size_class, PrivatePool* owner) : size_class(size_class), owner(owner) {}

  SizeClass size_class;
  PrivatePool* owner;  // nullptr: a shared pool
  std::set<Block*, Order> free;
};

// A pool for each size class.
struct BlockPools {
  explicit BlockPools(PrivatePool* owner = nullptr) : small(SizeClass::Small, owner), large(SizeClass::Large, owner) {}

  BlockPool& of(SizeClass size_class) {
    return size_class == SizeClass::Small ? small : large;
  }

  BlockPool small;
  BlockPool large;
};

}  // namespace openreg
