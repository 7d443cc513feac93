#pragma once

#include <c10/core/Storage.h>

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/Functions.h"
#include "runtime/ipc/ForeignMemory.h"

namespace openreg {

// Tells a sender when its receiver has freed a storage. Each sent storage has a lease: a pair of numbers in device memory, in
// a table that both processes can access. The sender writes the lease. The receiver enters its process number, and clears it
// when its storage is freed. The sender keeps the storage until then, or until the receiver's process has ended.

// Identifies a lease for the receiver.
struct LeaseName {
  std::string table;  // handle of the memory
  int64_t index = 0;
  uint64_t serial = 0;  // unique, unlike places, which are reused
};

// For the sender. Keeps `storage` alive until the lease ends.
LeaseName grantLease(c10::DeviceIndex device, c10::Storage storage);

// Releases every storage whose lease has ended.
void reclaimLeases(c10::DeviceIndex device);

// A lease that the receiver holds.
class Lease {
 public:
  // Raises an error if the lease was taken before, or if the sender has reused it for another storage.
  Lease(c10::DeviceIndex device, const LeaseName& name);

  // Returns the lease.
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
