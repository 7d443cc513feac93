// Faults on POSIX systems: prints a report, then continues as without this handler.
#include "platform.h"

#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>

namespace emulator::platform {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS};
struct sigaction g_previous[2];
FaultReport g_report = nullptr;
std::atomic<bool> g_reported{false};

void handOver(int signal, siginfo_t* info, void* context) {
  const struct sigaction& previous = g_previous[signal == kSignals[0] ? 0 : 1];
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, context);
    return;
  }
  if (previous.sa_handler == SIG_IGN && info->si_code <= 0) {
    return;
  }
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
    return;
  }
  // The instruction is repeated and causes the default action, so that a core dump shows the place. A signal that another
  // process sent has no instruction to repeat, so it is sent again.
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  sigaction(signal, &standard, nullptr);
  if (info->si_code <= 0) {
    raise(signal);
  }
}

// The address that the thread accessed. False if the signal does not come from a fault.
bool faultAddress(const siginfo_t& info, [[maybe_unused]] void* context, std::uintptr_t* address) {
  // Positive codes come from the processor.
  if (info.si_code > 0) {
    *address = reinterpret_cast<std::uintptr_t>(info.si_addr);
    return true;
  }
#if defined(__linux__) && defined(__x86_64__)
  // If a later handler raises the signal again, as Python's faulthandler does, the signal has no address. The system still
  // knows the address of the thread's last fault.
  constexpr int kPageFault = 14;
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  if (info.si_code == SI_TKILL && info.si_pid == getpid() && registers[REG_TRAPNO] == kPageFault) {
    *address = static_cast<std::uintptr_t>(registers[REG_CR2]);
    return true;
  }
#endif
  return false;
}

void onFault(int signal, siginfo_t* info, void* context) {
  std::uintptr_t address = 0;
  if (faultAddress(*info, context, &address) && !g_reported.load(std::memory_order_relaxed)) {
    if (g_report(address)) {
      g_reported.store(true, std::memory_order_relaxed);
    }
  }
  handOver(signal, info, context);
}

}  // namespace

void installFaultHandler(FaultReport report) {
  g_report = report;
  struct sigaction action = {};
  action.sa_sigaction = onFault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < 2; ++i) {
    // Read before sigaction sets the handler, which may run before sigaction returns.
    sigaction(kSignals[i], nullptr, &g_previous[i]);
    sigaction(kSignals[i], &action, nullptr);
  }
}

void writeError(const char* text, std::size_t size) {
  while (size > 0) {
    const ssize_t written = write(STDERR_FILENO, text, size);
    if (written <= 0) {
      return;
    }
    text += written;
    size -= static_cast<std::size_t>(written);
  }
}

}  // namespace emulator::platform
