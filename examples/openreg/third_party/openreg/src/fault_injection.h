// Lets chosen calls fail, so that the handling of failures can be tested.
#pragma once

#include <string>
#include <string_view>

#include "status.h"

namespace emulator {

// The nth call of the function from now on, counted from 1, fails once; 0 cancels this. If the failure is Success, one that
// fits the function is chosen.
Status injectFailure(std::string_view function, unsigned nth, Status failure);

// The same in the form "function:nth,function:nth". Returns an error message; empty if the text is valid.
std::string injectFailures(std::string_view list);

// Counts a call. Returns Success unless the call must fail. Only while diagnosis::kFailures is on.
Status countCall(const char* function);

}  // namespace emulator
