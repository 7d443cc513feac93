// Has calls fail that would succeed, so that the handling of failures can be tested.
#pragma once

#include <string>
#include <string_view>

#include "status.h"

namespace emulator {

// The nth call of the function from now on, counted from 1, fails once; 0 takes that back. Success as the failure: one that
// fits the function.
Status injectFailure(std::string_view function, unsigned nth, Status failure);

// The same in the form "function:nth,function:nth". Returns what is wrong with it, empty if nothing is.
std::string injectFailures(std::string_view list);

// Counts a call. Success unless it has to fail. Only while diagnosis::kFailures is on.
Status countCall(const char* function);

}  // namespace emulator
