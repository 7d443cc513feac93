#include "device/Capabilities.h"

#include <c10/core/DeviceType.h>
#include <c10/util/Exception.h>

namespace openreg::device {
namespace {

struct State {
  bool added = false;
  const char* declined = nullptr;
};

// A static in a function, because other files change it before the statics of this file are initialized.
State& stateOf(size_t index) {
  static std::array<State, kCapabilities.size()> states;
  return states.at(index);
}

bool has(size_t index) {
  const auto& state = stateOf(index);
  return state.declined == nullptr && (state.added || !kCapabilities.at(index).feature);
}

// Empty if the device has the capability.
std::string whyMissing(size_t index) {
  if (has(index)) {
    return "";
  }
  const auto& capability = kCapabilities.at(index);
  const char* const declined = stateOf(index).declined;
  const auto sentence = c10::str(capability.text, " is not supported on ", c10::get_privateuse1_backend(), " devices");
  if (declined != nullptr) {
    return *declined != '\0' ? c10::str(sentence, ": ", declined) : sentence;
  }
  return c10::str(
      sentence, ": the project was made without the feature `", capability.name, "`, which `torch-backend add-feature ", capability.name,
      "` adds");
}

}  // namespace

bool addCapability(Capability capability) {
  return stateOf(capability.index()).added = true;
}

bool notSupported(Capability capability, const char* reason) {
  stateOf(capability.index()).declined = reason;
  return false;
}

bool hasCapability(Capability capability) {
  return has(capability.index());
}

void requireCapability(Capability capability) {
  TORCH_CHECK_NOT_IMPLEMENTED(has(capability.index()), whyMissing(capability.index()));
}

std::map<std::string, std::string> capabilities() {
  std::map<std::string, std::string> result;
  for (size_t i = 0; i < kCapabilities.size(); ++i) {
    result.emplace(kCapabilities.at(i).name, whyMissing(i));
  }
  return result;
}

}  // namespace openreg::device
