#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "device/Export.h"

// Optional capabilities of a device. The device has a capability if the port does not decline it, and the project contains the feature
// that brings it, if any.
namespace openreg::device {

struct CapabilityText {
  std::string_view name;
  std::string_view text;  // "<text> is not supported on ... devices"
  bool feature;  // whether a feature of the project brings it; the others are in every project
};

inline constexpr std::array kCapabilities{
    CapabilityText{"graphs", "graph capture", true},
    CapabilityText{"peer_access", "access to the memory of another device by kernels", false},
    CapabilityText{"pinned_memory", "pinned memory", false},
    CapabilityText{"priorities", "a priority of streams", false},
    CapabilityText{"sharing", "sharing of memory between processes", true},
    CapabilityText{"timing", "measuring time by events", false},
};

// One of the names above. Any other name is a compile error.
class Capability {
 public:
  consteval Capability(const char* name) {
    while (kCapabilities.at(index_).name != name) {
      ++index_;
    }
  }
  constexpr size_t index() const {
    return index_;
  }

 private:
  size_t index_ = 0;
};

// Called by the files of the feature while the library loads.
bool addCapability(Capability capability);

// Declines a capability. One line in a source of this folder, such as
//   const bool no_graphs = notSupported("graphs", "the SDK cannot record a stream");
// The functions of the seam for the capability are not called then and need not be written; users see the reason.
bool notSupported(Capability capability, const char* reason = "");

BACKEND_API bool hasCapability(Capability capability);

// Raises NotImplementedError with the reason if the device does not have the capability.
BACKEND_API void requireCapability(Capability capability);

// For each name the sentence that requireCapability raises, or an empty string.
BACKEND_API std::map<std::string, std::string> capabilities();

}  // namespace openreg::device
