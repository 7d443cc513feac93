// Linux, macOS and similar systems: finds another process, and maps its memory.
#include "platform.h"

#include "posix_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

namespace emulator::platform {
namespace {

struct Name {
  char text[48];

  Name(std::uint32_t process, std::uint64_t number) {
    std::snprintf(text, sizeof(text), "/dm-%lu-%llu", static_cast<unsigned long>(process), static_cast<unsigned long long>(number));
  }
};

std::uint32_t processNumber() {
  return static_cast<std::uint32_t>(getpid());
}

#if defined(__linux__)

// The start of the process, in clock ticks since the start of the system; 0 if the process has ended or is not visible.
std::uint64_t startOf(std::uint32_t process) {
  char text[512];
  std::snprintf(text, sizeof(text), "/proc/%lu/stat", static_cast<unsigned long>(process));
  const int file = ::open(text, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return 0;
  }
  const ssize_t length = ::read(file, text, sizeof(text) - 1);
  ::close(file);
  text[length > 0 ? length : 0] = '\0';
  // The second field, the name, is in brackets and may hold anything. The third is the state, the start is the 22nd.
  const char* at = std::strrchr(text, ')');
  if (at == nullptr || std::strlen(at) < 3 || at[2] == 'Z' || at[2] == 'X') {
    return 0;
  }
  for (int field = 2; field < 22 && at != nullptr; ++field) {
    at = std::strchr(at + 1, ' ');
  }
  return at != nullptr ? std::strtoull(at, nullptr, 10) : 0;
}

#else

// The names of this process, which are removed at its end.
struct Names {
  std::mutex mutex;
  std::vector<std::pair<int, std::uint64_t>> entries;

  static Names& instance() {
    static auto& names = *new Names;
    return names;
  }
};

#endif

}  // namespace

int openNamedMemory() {
  static std::atomic<std::uint64_t> serial{0};
  const std::uint64_t number = serial.fetch_add(1);
  const Name name(processNumber(), number);
  int shared = shm_open(name.text, O_RDWR | O_CREAT | O_EXCL, 0600);
  if (shared < 0 && errno == EEXIST) {
    // An earlier process with this number was killed and left the name.
    shm_unlink(name.text);
    shared = shm_open(name.text, O_RDWR | O_CREAT | O_EXCL, 0600);
  }
  if (shared < 0) {
    return -1;
  }
#if defined(__linux__)
  shm_unlink(name.text);
#else
  Names& names = Names::instance();
  const std::lock_guard lock(names.mutex);
  if (names.entries.empty()) {
    std::atexit([] {
      for (const auto& entry : Names::instance().entries) {
        shm_unlink(Name(processNumber(), entry.second).text);
      }
    });
  }
  names.entries.emplace_back(shared, number);
#endif
  return shared;
}

std::uint64_t nameOf(Backing backing) {
#if defined(__linux__)
  return static_cast<std::uint64_t>(backing);
#else
  Names& names = Names::instance();
  const std::lock_guard lock(names.mutex);
  for (const auto& [descriptor, number] : names.entries) {
    if (descriptor == backing) {
      return number;
    }
  }
  return ~std::uint64_t{0};
#endif
}

ProcessId thisProcess() {
#if defined(__linux__)
  return {processNumber(), startOf(processNumber())};
#else
  return {processNumber(), 0};
#endif
}

bool isRunning(const ProcessId& process) {
#if defined(__linux__)
  if (const std::uint64_t started = startOf(process.number); started != 0) {
    return process.started == 0 || started == process.started;
  }
  // Ended, or /proc is not there.
  return process.started == 0 && kill(static_cast<pid_t>(process.number), 0) == 0;
#else
  return kill(static_cast<pid_t>(process.number), 0) == 0 || errno == EPERM;
#endif
}

Backing openBacking(const ProcessId& process, std::uint64_t name) {
#if defined(__linux__)
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/%lu/fd/%llu", static_cast<unsigned long>(process.number), static_cast<unsigned long long>(name));
  // Do not wait: the number may belong to another file meanwhile.
  const int descriptor = ::open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
#else
  const int descriptor = shm_open(Name(process.number, name).text, O_RDWR, 0);
#endif
  return descriptor >= 0 ? descriptor : kNoBacking;
}

void closeBacking(Backing backing) {
  ::close(static_cast<int>(backing));
}

std::size_t mapUnit() {
  return pageSize();
}

namespace {

// Pages beyond the end of an object cannot be read, though they can be mapped.
bool holds(Backing backing, std::size_t end) {
  struct stat status;
  return fstat(static_cast<int>(backing), &status) == 0 && static_cast<std::uint64_t>(status.st_size) >= end;
}

}  // namespace

bool mapPart(Backing backing, std::uintptr_t address, std::size_t offset, std::size_t size) {
  void* const place = reinterpret_cast<void*>(address);
  const int flags = MAP_SHARED | MAP_FIXED | MAP_NORESERVE;
  if (!holds(backing, offset + size) ||
      mmap(place, size, PROT_READ | PROT_WRITE, flags, static_cast<int>(backing), static_cast<off_t>(offset)) == MAP_FAILED) {
    return false;
  }
#if defined(MADV_HUGEPAGE)
  madvise(place, size, MADV_HUGEPAGE);
#endif
#if defined(MADV_DONTFORK)
  madvise(place, size, MADV_DONTFORK);
#endif
  return true;
}

void unmapPart(std::uintptr_t address, std::size_t size) {
  mmap(reinterpret_cast<void*>(address), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void* mapAnywhere(Backing backing, std::size_t size) {
  if (!holds(backing, size)) {
    return nullptr;
  }
  void* const address = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, static_cast<int>(backing), 0);
  return address != MAP_FAILED ? address : nullptr;
}

void unmapAnywhere(void* address, std::size_t size) {
  munmap(address, size);
}

std::uint64_t randomNumber() {
  std::random_device source;
  return (std::uint64_t{source()} << 32) | source();
}

}  // namespace emulator::platform
