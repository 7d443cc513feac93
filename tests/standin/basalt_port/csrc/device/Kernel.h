#pragma once

namespace acme::device {

using KernelFunction = void (*)(void* arguments);
inline constexpr bool kKernelsAreHostFunctions = true;

}  // namespace acme::device
