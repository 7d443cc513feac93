#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include "runtime/memory/BlockPool.h"

// Updates PyTorch's statistics for events of blocks and segments. The caller holds the lock that guards them.
namespace openreg {

using c10::CachingDeviceAllocator::DeviceStats;

void countAllocated(DeviceStats& stats, const Block& block);
void countFreed(DeviceStats& stats, const Block& block);  // its user has freed it
void countInactive(DeviceStats& stats, const Block& block);  // and every stream has passed its last use
void countSplitFree(DeviceStats& stats, const Block& block);  // a piece of a segment enters its pool
void countSplitTaken(DeviceStats& stats, const Block& block);  // a piece of a segment leaves its pool
void countNewSegment(DeviceStats& stats, const Block& block);  // the block is the whole segment
void countReleasedSegment(DeviceStats& stats, const Block& block);

void resetAccumulated(DeviceStats& stats);
void resetPeaks(DeviceStats& stats);

}  // namespace openreg
