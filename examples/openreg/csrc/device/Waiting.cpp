#include "device/Waiting.h"

namespace openreg::device {
namespace {

HostLock host_lock{nullptr, nullptr};

}  // namespace

void setHostLock(HostLock lock) noexcept {
  host_lock = lock;
}

Waiting::Waiting() : released_(host_lock.release != nullptr ? host_lock.release() : nullptr) {}

Waiting::~Waiting() {
  if (released_ != nullptr) {
    host_lock.acquire(released_);
  }
}

}  // namespace openreg::device
