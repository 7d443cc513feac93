// The functions of Ipc.h, for a port that shares nothing between processes.
#include "device/Ipc.h"

#include "device/substitutes/Optional.h"

namespace openreg::device {

BACKEND_OPTIONAL std::string exportMemory(void* /*base*/) {
  refuse("sharing", "exportMemory");
}

BACKEND_OPTIONAL void* openMemory(const std::string& /*handle*/) {
  refuse("sharing", "openMemory");
}

BACKEND_OPTIONAL void closeMemory(void* /*pointer*/) {
  refuse("sharing", "closeMemory");
}

BACKEND_OPTIONAL std::string exportEvent(EventHandle /*event*/) {
  refuse("sharing", "exportEvent");
}

BACKEND_OPTIONAL EventHandle openEvent(const std::string& /*handle*/) {
  refuse("sharing", "openEvent");
}

}  // namespace openreg::device
