#include "device/Capabilities.h"

#include <c10/core/DeviceType.h>
#include <c10/util/Exception.h>

namespace openreg::device {
namespace {

struct State {
  bool linked = false;
  const char* declined = nullptr;
};

// A static in a function, because other files change it before the statics of this file are initialized.
State& stateOf(size_t index) {
  static std::array<State, kCapabilities.size()> states;
  return states.at(index);
}

// Empty if the device has the capability.
std::string whyMissing(size_t index) {
  const auto& [name, text] = kCapabilities.at(index);
  const auto& state = stateOf(index);
  if (state.declined == nullptr && state.linked) {
    return "";
  }
  const auto sentence = c10::str(text, " is not supported on ", c10::get_privateuse1_backend(), " devices: ");
  if (state.declined != nullptr) {
    return sentence + state.declined;
  }
  return c10::str(sentence, "the project was made without the feature `", name, "`, which `torch-backend add-feature ", name, "` adds");
}

}  // namespace

bool addCapability(Capability capability) {
  return stateOf(capability.index()).linked = true;
}

bool notSupported(Capability capability, const char* reason) {
  stateOf(capability.index()).declined = reason;
  return false;
}

void requireCapability(Capability capability) {
  const auto missing = whyMissing(capability.index());
  TORCH_CHECK_NOT_IMPLEMENTED(missing.empty(), missing);
}

std::map<std::string, std::string> capabilities() {
  std::map<std::string, std::string> result;
  for (size_t i = 0; i < kCapabilities.size(); ++i) {
    result.emplace(kCapabilities.at(i).name, whyMissing(i));
  }
  return result;
}

}  // namespace openreg::device
