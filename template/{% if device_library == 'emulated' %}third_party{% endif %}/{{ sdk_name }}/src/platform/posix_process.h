// Between posix.cpp and posix_process.cpp.
#pragma once

namespace emulator::platform {

// A new object of shared memory, found by other processes; -1 if the system has none. Linux finds every descriptor of a
// process below /proc, so there the name is given up at once; elsewhere it lasts as long as the process.
int openNamedMemory();

}  // namespace emulator::platform
