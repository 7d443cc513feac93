// The SDK's interface to the operating system. CMakeLists.txt chooses the implementation.
#pragma once

#include <cstddef>
#include <cstdint>
#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

namespace emulator::platform {

// An object of shared memory that can be mapped. Pages take memory from the first write until they are discarded.
using Backing = std::intptr_t;
inline constexpr Backing kNoBacking = -1;

inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t pageSize();

int hardwareThreads();

// For a loop that waits for another thread: yields the core to its other hardware thread for a moment.
inline void pause() {
#if defined(__x86_64__) || defined(_M_X64)
  _mm_pause();
#elif defined(__aarch64__) && !defined(_MSC_VER)
  asm volatile("yield");
#endif
}

// Two address ranges of `size` bytes each, aligned to kHugePage, without access and without memory. False if the system refuses.
bool reserve(std::size_t size, std::uintptr_t* first, std::uintptr_t* second);

Backing createBacking(std::size_t size);

// Maps the whole object at `address`, inside of a reserved range, readable and writable. A forked child does not inherit it.
bool mapBacking(Backing backing, std::uintptr_t address, std::size_t size);

// Makes pages of the mapping at `address` usable. False if the system has no memory for them.
bool commit(std::uintptr_t address, std::size_t size);

// Gives pages back to the system; `offset` is relative to the object that is mapped at `mapping`. The content is lost.
void discard(Backing backing, std::uintptr_t mapping, std::size_t offset, std::size_t size);

// A process. The time of its start distinguishes it from an earlier process with the same number, if the system reports it.
struct ProcessId {
  std::uint32_t number = 0;
  std::uint64_t started = 0;  // 0: not known

  bool operator==(const ProcessId&) const = default;
};
ProcessId thisProcess();
bool isRunning(const ProcessId& process);

// Another process of the same user finds the object by this number and the ProcessId.
std::uint64_t nameOf(Backing backing);

// kNoBacking if the object does not exist or the system refuses.
Backing openBacking(const ProcessId& process, std::uint64_t name);
void closeBacking(Backing backing);

// Offsets and addresses for mapPart must be multiples of this.
std::size_t mapUnit();

// Maps a part of an object at `address` in a reserved range; unmapPart removes the access again.
bool mapPart(Backing backing, std::uintptr_t address, std::size_t offset, std::size_t size);
void unmapPart(std::uintptr_t address, std::size_t size);

// Maps an object at any free address; null if the system refuses.
void* mapAnywhere(Backing backing, std::size_t size);
void unmapAnywhere(void* address, std::size_t size);

// A random number that cannot be guessed.
std::uint64_t randomNumber();

// Page-aligned zeroed host memory, null if there is none.
void* allocateHost(std::size_t size);
void freeHost(void* pointer, std::size_t size);

// Calls `report` when a thread accesses an invalid address. The process then continues as without this function.
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
