#pragma once

#include <cstdint>

namespace openreg {

// The number of this process, never 0.
uint64_t currentProcess();

// Whether a process with this number runs. An ended process counts as running until its parent has read its exit code.
bool isProcessRunning(uint64_t process);

}  // namespace openreg
