#pragma once

#include <c10/core/Storage.h>

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/ipc/ForeignMemory.h"
#include "runtime/Functions.h"

namespace openreg {

// How a sender learns that a receiver is done. Each storage that is sent gets a lease: a pair of numbers in device memory, in
// a table that both processes see. The sender writes it, the receiver puts its process number on it, and wipes that when
// its storage is freed. The sender keeps the storage until then, or until the receiver's process has ended.

// Names a lease to the receiver.
struct LeaseName {
  std::string table;  // handle of the memory
  int64_t index = 0;
  uint64_t serial = 0;  // places are used again, this is not
};

// For the sender. Keeps `storage` alive until the lease ends.
LeaseName grantLease(c10::DeviceIndex device, c10::Storage storage);

// Lets go of every storage whose lease has ended.
void reclaimLeases(c10::DeviceIndex device);

// For the receiver: a lease that it holds.
class Lease {
 public:
  // Raises if the lease was taken before, or the sender has given it to somebody else.
  Lease(c10::DeviceIndex device, const LeaseName& name);

  // Gives it back.
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

 private:
  void writeHolder(uint64_t holder);

  const c10::DeviceIndex device_;
  const ForeignMemory table_;
  char* const place_;
};

}  // namespace openreg
