// Windows 10 and later: shared memory, also of other processes.
#include "platform.h"

#define NOMINMAX
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <algorithm>
#include <cwchar>
#include <mutex>
#include <random>
#include <vector>

namespace emulator::platform {
namespace {

DWORD high(std::size_t size) {
  return static_cast<DWORD>(size >> 32);
}
DWORD low(std::size_t size) {
  return static_cast<DWORD>(size & 0xffffffffu);
}

struct Name {
  wchar_t text[64];

  Name(std::uint32_t process, std::uint64_t number) {
    std::swprintf(
        text, std::size(text), L"Local\\dm-%lu-%llu", static_cast<unsigned long>(process), static_cast<unsigned long long>(number));
  }
};

// The objects of this process. The index of an object is the number in its name.
struct Objects {
  std::mutex mutex;
  std::vector<Backing> all;

  static Objects& instance() {
    static auto& objects = *new Objects;
    return objects;
  }
};

// In units of 100 ns; 0 if it is unknown.
std::uint64_t startOf(HANDLE process) {
  FILETIME created;
  FILETIME ended;
  FILETIME kernel;
  FILETIME user;
  if (!GetProcessTimes(process, &created, &ended, &kernel, &user)) {
    return 0;
  }
  return (std::uint64_t{created.dwHighDateTime} << 32) | created.dwLowDateTime;
}

}  // namespace

Backing createBacking(std::size_t size) {
  Objects& objects = Objects::instance();
  const std::lock_guard lock(objects.mutex);
  const Name name(GetCurrentProcessId(), objects.all.size());
  // SEC_RESERVE: pages count against the commit limit only from `commit` on.
  const HANDLE mapping = CreateFileMappingW(INVALID_HANDLE_VALUE, nullptr, PAGE_READWRITE | SEC_RESERVE, high(size), low(size), name.text);
  if (mapping == nullptr) {
    return kNoBacking;
  }
  objects.all.push_back(reinterpret_cast<Backing>(mapping));
  return objects.all.back();
}

std::uint64_t nameOf(Backing backing) {
  Objects& objects = Objects::instance();
  const std::lock_guard lock(objects.mutex);
  return static_cast<std::uint64_t>(std::find(objects.all.begin(), objects.all.end(), backing) - objects.all.begin());
}

ProcessId thisProcess() {
  return {GetCurrentProcessId(), startOf(GetCurrentProcess())};
}

bool isRunning(const ProcessId& process) {
  const HANDLE handle = OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION | SYNCHRONIZE, FALSE, process.number);
  if (handle == nullptr) {
    return false;
  }
  const bool running = WaitForSingleObject(handle, 0) == WAIT_TIMEOUT && (process.started == 0 || startOf(handle) == process.started);
  CloseHandle(handle);
  return running;
}

Backing openBacking(const ProcessId& process, std::uint64_t name) {
  const HANDLE mapping = OpenFileMappingW(FILE_MAP_ALL_ACCESS, FALSE, Name(process.number, name).text);
  return mapping != nullptr ? reinterpret_cast<Backing>(mapping) : kNoBacking;
}

void closeBacking(Backing backing) {
  CloseHandle(reinterpret_cast<HANDLE>(backing));
}

std::size_t mapUnit() {
  static const std::size_t unit = [] {
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return static_cast<std::size_t>(info.dwAllocationGranularity);
  }();
  return unit;
}

bool mapPart(Backing backing, std::uintptr_t address, std::size_t offset, std::size_t size) {
  void* const place = reinterpret_cast<void*>(address);
  return MapViewOfFileEx(reinterpret_cast<HANDLE>(backing), FILE_MAP_ALL_ACCESS, high(offset), low(offset), size, place) == place;
}

void unmapPart(std::uintptr_t address, std::size_t) {
  UnmapViewOfFile(reinterpret_cast<void*>(address));
}

void* mapAnywhere(Backing backing, std::size_t size) {
  return MapViewOfFile(reinterpret_cast<HANDLE>(backing), FILE_MAP_ALL_ACCESS, 0, 0, size);
}

void unmapAnywhere(void* address, std::size_t) {
  UnmapViewOfFile(address);
}

std::uint64_t randomNumber() {
  std::random_device source;
  return (std::uint64_t{source()} << 32) | source();
}

}  // namespace emulator::platform
