#include "runtime/memory/Reclaim.h"

#include <vector>

namespace openreg {
namespace {

// A static in a function, because other files add to it before the statics of this file are initialized.
std::vector<Reclaimer>& reclaimers() {
  static auto& list = *new std::vector<Reclaimer>;
  return list;
}

}  // namespace

void addReclaimer(Reclaimer reclaimer) {
  reclaimers().push_back(reclaimer);
}

void reclaimMemory(c10::DeviceIndex device) {
  for (const auto reclaimer : reclaimers()) {
    reclaimer(device);
  }
}

}  // namespace openreg
