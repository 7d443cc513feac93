#include "runtime/ipc/Process.h"

#if defined(_WIN32)
#define NOMINMAX
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#else
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#endif

namespace openreg {

#if defined(_WIN32)

uint64_t currentProcess() {
  return GetCurrentProcessId();
}

bool isProcessRunning(uint64_t process) {
  const HANDLE handle = OpenProcess(SYNCHRONIZE, FALSE, static_cast<DWORD>(process));
  if (handle == nullptr) {
    return GetLastError() == ERROR_ACCESS_DENIED;
  }
  const bool running = WaitForSingleObject(handle, 0) == WAIT_TIMEOUT;
  CloseHandle(handle);
  return running;
}

#else

uint64_t currentProcess() {
  return static_cast<uint64_t>(getpid());
}

bool isProcessRunning(uint64_t process) {
  return kill(static_cast<pid_t>(process), 0) == 0 || errno != ESRCH;
}

#endif

}  // namespace openreg
