// Linux, macOS and similar systems: memory and threads. Signals are in posix_fault.cpp, other processes in posix_process.cpp.
#include "platform.h"

#include "posix_process.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

namespace emulator::platform {
namespace {

std::uintptr_t reserveOne(std::size_t size) {
  const std::size_t padded = size + kHugePage;
  void* const address = mmap(nullptr, padded, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    return 0;
  }
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  const std::uintptr_t aligned = (start + kHugePage - 1) & ~(kHugePage - 1);
  if (aligned != start) {
    munmap(address, aligned - start);
  }
  munmap(reinterpret_cast<void*>(aligned + size), padded - size - (aligned - start));
  return aligned;
}

int openSharedMemory() {
#if defined(MFD_CLOEXEC)
  const int memfd = memfd_create("device-memory", MFD_CLOEXEC);
  if (memfd >= 0) {
    return memfd;
  }
#endif
  const int shared = openNamedMemory();
  if (shared >= 0) {
    return shared;
  }
  std::FILE* const file = std::tmpfile();
  if (file == nullptr) {
    return -1;
  }
  const int copy = fcntl(fileno(file), F_DUPFD_CLOEXEC, 0);
  std::fclose(file);
  return copy;
}

}  // namespace

std::size_t pageSize() {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

int hardwareThreads() {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

bool reserve(std::size_t size, std::uintptr_t* first, std::uintptr_t* second) {
  *first = reserveOne(size);
  *second = *first != 0 ? reserveOne(size) : 0;
  if (*first != 0 && *second == 0) {
    munmap(reinterpret_cast<void*>(*first), size);
  }
  return *second != 0;
}

Backing createBacking(std::size_t size) {
  const int descriptor = openSharedMemory();
  if (descriptor >= 0 && ftruncate(descriptor, static_cast<off_t>(size)) != 0) {
    close(descriptor);
    return kNoBacking;
  }
  return descriptor;
}

bool mapBacking(Backing backing, std::uintptr_t address, std::size_t size) {
  void* const place = reinterpret_cast<void*>(address);
  const int flags = MAP_SHARED | MAP_FIXED | MAP_NORESERVE;
  if (mmap(place, size, PROT_READ | PROT_WRITE, flags, static_cast<int>(backing), 0) == MAP_FAILED) {
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

bool commit(std::uintptr_t, std::size_t) {
  return true;
}

void discard(Backing backing, std::uintptr_t mapping, std::size_t offset, std::size_t size) {
#if defined(FALLOC_FL_PUNCH_HOLE)
  const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  if (fallocate(static_cast<int>(backing), mode, static_cast<off_t>(offset), static_cast<off_t>(size)) == 0) {
    return;
  }
#endif
#if defined(MADV_REMOVE)
  madvise(reinterpret_cast<void*>(mapping + offset), size, MADV_REMOVE);
#elif defined(MADV_FREE)
  madvise(reinterpret_cast<void*>(mapping + offset), size, MADV_FREE);
#endif
  static_cast<void>(backing);
}

void* allocateHost(std::size_t size) {
  void* const address = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    return nullptr;
  }
#if defined(MADV_HUGEPAGE)
  if (size >= kHugePage) {
    madvise(address, size, MADV_HUGEPAGE);
  }
#endif
  return address;
}

void freeHost(void* pointer, std::size_t size) {
  munmap(pointer, size);
}

void onFork(void (*child)()) {
  pthread_atfork(nullptr, nullptr, child);
}

namespace {

struct Start {
  void (*run)(void*);
  void* argument;
  char name[16];
};

void* runThread(void* argument) {
  const Start start = *static_cast<Start*>(argument);
  delete static_cast<Start*>(argument);
#if defined(__APPLE__)
  pthread_setname_np(start.name);
#else
  pthread_setname_np(pthread_self(), start.name);
#endif
#if defined(__linux__)
  // By default the system lengthens each sleep by 50 microseconds, which is too much for short ones.
  prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);
#endif
  start.run(start.argument);
  return nullptr;
}

}  // namespace

bool startThread(void (*run)(void*), void* argument, const char* name) {
  auto* const start = new (std::nothrow) Start{run, argument, ""};
  if (start == nullptr) {
    return false;
  }
  std::snprintf(start->name, sizeof(start->name), "%s", name);
  // Signals such as an interrupt from the keyboard are for the application's threads; faults concern the thread that faults.
  sigset_t blocked;
  sigset_t previous;
  sigfillset(&blocked);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) {
    sigdelset(&blocked, fault);
  }
  pthread_sigmask(SIG_SETMASK, &blocked, &previous);
  pthread_t thread;
  const bool started = pthread_create(&thread, nullptr, runThread, start) == 0;
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  if (started) {
    pthread_detach(thread);
  } else {
    delete start;
  }
  return started;
}

}  // namespace emulator::platform
