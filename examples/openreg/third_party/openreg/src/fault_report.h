// The message for host code that accesses device memory.
#pragma once

namespace emulator {

class Runtime;

// From now on, a fault in the address space of `runtime` prints an explanation to the standard error output before the process ends.
void installFaultReport(Runtime& runtime);

}  // namespace emulator
