// What the SDK needs from the operating system. One implementation for each system, chosen by CMakeLists.txt.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulator::platform {

// An object of shared memory that can be mapped. Pages take memory from the first write until they are discarded.
using Backing = std::intptr_t;
inline constexpr Backing kNoBacking = -1;

inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t pageSize();

int hardwareThreads();

// Two address ranges of `size` bytes each, aligned to kHugePage, without access and without memory. False if the system refuses.
bool reserve(std::size_t size, std::uintptr_t* first, std::uintptr_t* second);

Backing createBacking(std::size_t size);

// Maps the whole object at `address`, inside of a reserved range, readable and writable. A forked child does not inherit it.
bool mapBacking(Backing backing, std::uintptr_t address, std::size_t size);

// Makes pages of the mapping at `address` usable. False if the system has no memory for them.
bool commit(std::uintptr_t address, std::size_t size);

// Gives pages back to the system; `offset` is relative to the object that is mapped at `mapping`. The content is lost.
void discard(Backing backing, std::uintptr_t mapping, std::size_t offset, std::size_t size);

// Page-aligned zeroed host memory, null if there is none.
void* allocateHost(std::size_t size);
void freeHost(void* pointer, std::size_t size);

// Calls `report` when a thread touches an address it must not, before the process goes the way it would have gone without us.
// `report` returns true if the address concerns it, and must be async-signal-safe.
using FaultReport = bool (*)(std::uintptr_t address);
void installFaultHandler(FaultReport report);

// Async-signal-safe.
void writeError(const char* text, std::size_t size);

// Calls `child` in each forked child from now on.
void onFork(void (*child)());

// Starts a detached thread that receives no signals. False if the system refuses.
bool startThread(void (*run)(void*), void* argument, const char* name);

}  // namespace emulator::platform
