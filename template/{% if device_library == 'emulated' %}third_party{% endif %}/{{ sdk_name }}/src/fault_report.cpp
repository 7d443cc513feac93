#include "fault_report.h"

#include <cstddef>
#include <cstdint>

#include "platform/platform.h"
#include "runtime.h"

namespace emulator {
namespace {

Runtime* g_runtime = nullptr;

// Builds a text with functions that a signal handler may call.
class Text {
 public:
  Text& operator<<(const char* text) {
    while (*text != '\0') {
      put(*text++);
    }
    return *this;
  }
  Text& decimal(std::size_t number) {
    if (number >= 10) {
      decimal(number / 10);
    }
    put(static_cast<char>('0' + number % 10));
    return *this;
  }
  Text& hex(std::uintptr_t number) {
    *this << "0x";
    bool started = false;
    for (int shift = 60; shift >= 0; shift -= 4) {
      const unsigned digit = (number >> shift) & 15u;
      started = started || digit != 0 || shift == 0;
      if (started) {
        put("0123456789abcdef"[digit]);
      }
    }
    return *this;
  }
  void write() const { platform::writeError(buffer_, length_); }

 private:
  void put(char character) {
    if (length_ < sizeof(buffer_)) {
      buffer_[length_++] = character;
    }
  }
  char buffer_[768];
  std::size_t length_ = 0;
};

void describeAllocation(Text& text, Device& device, std::uintptr_t address) {
  Allocation allocation;
  switch (device.memory.tryFind(address, &allocation)) {
    case DeviceMemory::Lookup::Found:
      text << "in the allocation that starts at ";
      text.hex(allocation.base) << " (";
      text.decimal(allocation.size) << " bytes, offset ";
      text.decimal(address - allocation.base) << ")";
      break;
    case DeviceMemory::Lookup::None:
      text << "where there is no live allocation (freed, or out of bounds)";
      break;
    case DeviceMemory::Lookup::Busy:
      text << "in an unknown allocation";
      break;
  }
}

bool report(std::uintptr_t address) {
  const AddressSpace& space = g_runtime->space;
  Text text;
  if (space.contains(address)) {
    const int index = space.deviceOf(address);
    text << "\nFatal error in " EMULATOR_LIBRARY ": the host accessed device memory at ";
    text.hex(address) << ", on device ";
    text.decimal(static_cast<std::size_t>(index)) << ", ";
    describeAllocation(text, g_runtime->device(index), address);
    text << ".\nOnly the device can access its memory: copy the data to the host first, or launch a kernel that works on it.\n(A kernel "
            "has to turn the address into a kernel address.)\nFor the Python stack, start Python with `-X faulthandler`.\n\n";
  } else if (space.containsKernel(address)) {
    const std::uintptr_t counterpart = address - static_cast<std::uintptr_t>(space.kernelOffset());
    const int index = space.deviceOf(counterpart);
    text << "\nFatal error in " EMULATOR_LIBRARY ": a kernel accessed device address ";
    text.hex(counterpart) << ", on device ";
    text.decimal(static_cast<std::size_t>(index)) << ", ";
    if (Runtime::get() == nullptr) {
      text << "in a forked child, which has no devices.\nStart child processes with the `spawn` method.\n\n";
    } else if (
        DeviceMemory& memory = g_runtime->device(index).memory;
        counterpart - memory.base() >= memory.size() && !memory.imports.contains(counterpart)) {
      text << "which is beyond the memory of the device.\nThe kernel ran out of the bounds of its operands.\n\n";
    } else {
      describeAllocation(text, g_runtime->device(index), counterpart);
      text << ".\nThe host probably has no memory left to back it: run with less device memory in use.\n\n";
    }
  } else {
    return false;
  }
  text.write();
  return true;
}

}  // namespace

void installFaultReport(Runtime& runtime) {
  g_runtime = &runtime;
  platform::installFaultHandler(report);
}

}  // namespace emulator
