// Windows 10 and later, 64 bit. Objects of shared memory are in windows_process.cpp.
#include "platform.h"

#define NOMINMAX
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#include <process.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

namespace emulator::platform {
namespace {

void* reserveAligned(std::size_t size) {
  // VirtualAlloc aligns to 64 KiB only: reserve a larger range, release it, and reserve the aligned part.
  for (int attempt = 0; attempt < 16; ++attempt) {
    void* const padded = VirtualAlloc(nullptr, size + kHugePage, MEM_RESERVE, PAGE_NOACCESS);
    if (padded == nullptr) {
      return nullptr;
    }
    const auto start = reinterpret_cast<std::uintptr_t>(padded);
    const std::uintptr_t aligned = (start + kHugePage - 1) & ~(kHugePage - 1);
    VirtualFree(padded, 0, MEM_RELEASE);
    void* const result = VirtualAlloc(reinterpret_cast<void*>(aligned), size, MEM_RESERVE, PAGE_NOACCESS);
    if (result != nullptr) {
      return result;
    }
  }
  return nullptr;
}

}  // namespace

std::size_t pageSize() {
  static const std::size_t size = [] {
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return static_cast<std::size_t>(info.dwPageSize);
  }();
  return size;
}

int hardwareThreads() {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

bool reserve(std::size_t size, std::uintptr_t* first, std::uintptr_t* second) {
  void* const guarded = reserveAligned(size);
  void* const mapped = guarded != nullptr ? reserveAligned(size) : nullptr;
  if (mapped == nullptr) {
    if (guarded != nullptr) {
      VirtualFree(guarded, 0, MEM_RELEASE);
    }
    return false;
  }
  // A view can be mapped only at an address that is not reserved; mapBacking maps one here next.
  VirtualFree(mapped, 0, MEM_RELEASE);
  *first = reinterpret_cast<std::uintptr_t>(guarded);
  *second = reinterpret_cast<std::uintptr_t>(mapped);
  return true;
}

bool mapBacking(Backing backing, std::uintptr_t address, std::size_t size) {
  void* const place = reinterpret_cast<void*>(address);
  return MapViewOfFileEx(reinterpret_cast<HANDLE>(backing), FILE_MAP_ALL_ACCESS, 0, 0, size, place) == place;
}

bool commit(std::uintptr_t address, std::size_t size) {
  return VirtualAlloc(reinterpret_cast<void*>(address), size, MEM_COMMIT, PAGE_READWRITE) != nullptr;
}

void discard(Backing, std::uintptr_t mapping, std::size_t offset, std::size_t size) {
  // Views cannot be decommitted. Instead, discard the content, and unlock pages that are not locked: this removes them
  // from the working set.
  void* const place = reinterpret_cast<void*>(mapping + offset);
  VirtualAlloc(place, size, MEM_RESET, PAGE_READWRITE);
  VirtualUnlock(place, size);
}

void* allocateHost(std::size_t size) {
  return VirtualAlloc(nullptr, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

void freeHost(void* pointer, std::size_t) {
  VirtualFree(pointer, 0, MEM_RELEASE);
}

namespace {

FaultReport g_report = nullptr;
std::atomic<bool> g_reported{false};

LONG CALLBACK onFault(EXCEPTION_POINTERS* exception) {
  const EXCEPTION_RECORD& record = *exception->ExceptionRecord;
  const bool fault = record.ExceptionCode == EXCEPTION_ACCESS_VIOLATION || record.ExceptionCode == EXCEPTION_IN_PAGE_ERROR;
  // ExceptionInformation: kind of access, address.
  if (fault && record.NumberParameters >= 2 && !g_reported.load(std::memory_order_relaxed)) {
    if (g_report(static_cast<std::uintptr_t>(record.ExceptionInformation[1]))) {
      g_reported.store(true, std::memory_order_relaxed);
    }
  }
  return EXCEPTION_CONTINUE_SEARCH;
}

}  // namespace

void installFaultHandler(FaultReport report) {
  g_report = report;
  AddVectoredExceptionHandler(1, onFault);
}

void writeError(const char* text, std::size_t size) {
  DWORD written = 0;
  WriteFile(GetStdHandle(STD_ERROR_HANDLE), text, static_cast<DWORD>(size), &written, nullptr);
}

void onFork(void (*)()) {
  // There is no fork.
}

namespace {

struct Start {
  void (*run)(void*);
  void* argument;
};

unsigned __stdcall runThread(void* argument) {
  const Start start = *static_cast<Start*>(argument);
  delete static_cast<Start*>(argument);
  start.run(start.argument);
  return 0;
}

}  // namespace

bool startThread(void (*run)(void*), void* argument, const char* name) {
  auto* const start = new (std::nothrow) Start{run, argument};
  if (start == nullptr) {
    return false;
  }
  const auto thread = reinterpret_cast<HANDLE>(_beginthreadex(nullptr, 0, runThread, start, 0, nullptr));
  if (thread == nullptr) {
    delete start;
    return false;
  }
  wchar_t wide[32] = L"";
  for (int i = 0; i < 31 && name[i] != '\0'; ++i) {
    wide[i] = static_cast<wchar_t>(name[i]);
  }
  SetThreadDescription(thread, wide);
  CloseHandle(thread);
  return true;
}

}  // namespace emulator::platform
