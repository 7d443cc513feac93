#include "support.h"

#include <csignal>

namespace {

class IsolationDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

// A sanitizer ends the process in its own way after its own report.
bool diedOfIt(int status) {
  return kSanitized ? status != 0 : testing::KilledBySignal(SIGSEGV)(status);
}

void touch(void* pointer) {
  *static_cast<volatile char*>(pointer) = 1;
}

void* allocate(std::size_t size) {
  void* pointer = nullptr;
  EXPECT_OK(orMalloc(&pointer, size));
  return pointer;
}

void sayHello(int) {
  constexpr char kText[] = "the earlier handler\n";
  [[maybe_unused]] const auto written = write(2, kText, sizeof(kText) - 1);
  std::signal(SIGSEGV, SIG_DFL);
}

// Says that it was called, and raises the signal anew for the handler that was there before.
struct sigaction earlier;
void sayAndRaise(int signal) {
  constexpr char kText[] = "the later handler\n";
  [[maybe_unused]] const auto written = write(2, kText, sizeof(kText) - 1);
  sigaction(signal, &earlier, nullptr);
  raise(signal);
}

}  // namespace

TEST_F(IsolationDeathTest, HostAccessIsExplained) {
  EXPECT_EXIT(
      touch(static_cast<char*>(allocate(1000)) + 10), diedOfIt,
      "Fatal error in .*openreg.*: the host accessed device memory at 0x[0-9a-f]+, on device 0, in the allocation that starts at "
      "0x[0-9a-f]+ .1000 bytes, offset 10.*copy the data to the host");
}

TEST_F(IsolationDeathTest, NamesTheDevice) {
  const auto body = [] {
    orSetDevice(1);
    touch(allocate(64));
  };
  EXPECT_EXIT(body(), diedOfIt, "on device 1, in the allocation");
}

TEST_F(IsolationDeathTest, FreedMemoryIsExplained) {
  const auto body = [] {
    void* const pointer = allocate(4096);
    orFree(pointer);
    touch(pointer);
  };
  EXPECT_EXIT(body(), diedOfIt, "no live allocation");
}

TEST_F(IsolationDeathTest, RunningOutOfTheDeviceIsExplained) {
  const auto body = [] {
    std::size_t free = 0;
    std::size_t total = 0;
    orMemGetInfo(&free, &total);
    touch(static_cast<char*>(kernelAddress(allocate(total))) + total);
  };
  EXPECT_EXIT(body(), diedOfIt, "beyond the memory of the device");
}

TEST_F(IsolationDeathTest, OtherFaultsAreNotOurs) {
  const auto body = [] {
    allocate(1);
    std::fprintf(stderr, "start\n");
    static volatile std::uintptr_t nowhere = 64;
    touch(reinterpret_cast<void*>(nowhere));
  };
  // Nothing of ours between the start and the end of the process.
  EXPECT_EXIT(body(), diedOfIt, kSanitized ? "start" : "start\n$");
}

TEST_F(IsolationDeathTest, AnEarlierHandlerStillRuns) {
  if (kSanitized) {
    GTEST_SKIP() << "the sanitizer wants to be the only one";
  }
  const auto body = [] {
    std::signal(SIGSEGV, sayHello);
    touch(allocate(8));
  };
  EXPECT_EXIT(body(), testing::KilledBySignal(SIGSEGV), "on device 0, in the allocation(.|\n)*the earlier handler");
}

TEST_F(IsolationDeathTest, SentSignalsStillKill) {
  if (kSanitized) {
    GTEST_SKIP() << "the sanitizer wants to be the only one";
  }
  const auto body = [] {
    allocate(8);
    std::raise(SIGSEGV);
  };
  EXPECT_EXIT(body(), testing::KilledBySignal(SIGSEGV), "");
}

TEST(Isolation, KernelsReachTheMemory) {
  const DeviceMemory memory(sizeof(int));
  int* const kernel_address = kernelAddress(static_cast<int*>(memory.pointer));
  EXPECT_OK(orLaunchKernelInline([](void* place) { *static_cast<int*>(place) = 42; }, kernel_address, nullptr));
  int value = 0;
  EXPECT_OK(orMemcpy(&value, memory.pointer, sizeof(value), orMemcpyDeviceToHost));
  EXPECT_EQ(42, value);
}

TEST(Isolation, OneOffsetForAllDevices) {
  const DeviceMemory on_0(4);
  const DeviceGuard guard(1);
  const DeviceMemory on_1(4);
  int values[2] = {5, 6};
  EXPECT_OK(orMemcpy(on_0.pointer, &values[0], 4, orMemcpyHostToDevice));
  EXPECT_OK(orMemcpy(on_1.pointer, &values[1], 4, orMemcpyHostToDevice));
  EXPECT_EQ(5, *kernelAddress(static_cast<int*>(on_0.pointer)));
  EXPECT_EQ(6, *kernelAddress(static_cast<int*>(on_1.pointer)));
}

#if defined(__linux__) && defined(__x86_64__)
TEST_F(IsolationDeathTest, HandlersThatRaiseTheSignalAnewLoseNothing) {
  const auto body = [] {
    void* const pointer = allocate(100);
    struct sigaction action = {};
    action.sa_handler = sayAndRaise;
    action.sa_flags = SA_NODEFER;
    sigaction(SIGSEGV, &action, &earlier);
    touch(pointer);
  };
  EXPECT_EXIT(body(), diedOfIt, "the later handler(.|\n)*host accessed device memory at (.|\n)*100 bytes(.|\n)*faulthandler");
}
#endif
