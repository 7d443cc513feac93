// The addresses of device memory: one range of device addresses for all devices, and at a constant distance the same range for kernels.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "platform/platform.h"

namespace emulator {

struct AddressSpace {
  std::uintptr_t base = 0;
  std::uintptr_t size = 0;
  std::uintptr_t kernel_base = 0;
  unsigned stride_shift = 0;

  // A stride is a power of two, so that a shift gives the device of an address. It leaves a gap behind each device, so that an
  // overrun does not reach the next device. The first half is the device's own memory, the second half is for memory of other
  // processes.
  bool create(int devices, std::size_t memory) {
    stride_shift = static_cast<unsigned>(std::bit_width(2 * (memory + 2 * platform::kHugePage) - 1));
    size = static_cast<std::uintptr_t>(devices) << stride_shift;
    return platform::reserve(size, &base, &kernel_base);
  }

  std::uintptr_t deviceBase(int device) const { return base + (static_cast<std::uintptr_t>(device) << stride_shift); }

  // As large as the device's own memory.
  std::uintptr_t importBase(int device) const { return deviceBase(device) + (std::uintptr_t{1} << (stride_shift - 1)); }
  std::size_t importSize() const { return (std::size_t{1} << (stride_shift - 1)) - platform::kHugePage; }

  std::ptrdiff_t kernelOffset() const { return static_cast<std::ptrdiff_t>(kernel_base - base); }

  // One comparison is enough: lower addresses wrap around to a large number.
  bool contains(std::uintptr_t address) const { return address - base < size; }
  bool containsKernel(std::uintptr_t address) const { return address - kernel_base < size; }

  // Only for an address that the range contains.
  int deviceOf(std::uintptr_t address) const { return static_cast<int>((address - base) >> stride_shift); }
};

}  // namespace emulator
