#pragma once

#include <c10/core/Layout.h>
#include <c10/util/Exception.h>

#include <optional>

namespace openreg {

// Raises for what no factory function of this device can make.
inline void checkFactoryOptions(std::optional<c10::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK_NOT_IMPLEMENTED(layout.value_or(c10::kStrided) == c10::kStrided, "this device has no tensors of layout ", *layout, " yet");
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
}

}  // namespace openreg
