// What happens when the process forks or ends.
#include "support.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

namespace {

class ProcessDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

// Exit code of a forked child.
int inChild(int (*body)()) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(body());
  }
  int status = 0;
  EXPECT_EQ(child, waitpid(child, &status, 0));
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool isRefused(orError_t error) {
  return error == orErrorForked && std::strstr(orGetLastErrorMessage(), "spawn") != nullptr;
}

}  // namespace

TEST(Process, ForkedChildIsRefused) {
  static orStream_t stream;
  static orEvent_t event;
  static void* memory;
  ASSERT_OK(orStreamCreate(&stream));
  ASSERT_OK(orEventCreate(&event));
  ASSERT_OK(orMalloc(&memory, 64));
  const int failed = inChild([] {
    int failed = 0;
    void* pointer = nullptr;
    std::size_t size = 0;
    std::ptrdiff_t offset = 0;
    orStream_t other = nullptr;
    orEvent_t another = nullptr;
    orPointerAttributes attributes;
    for (const orError_t error :
         {orSetDevice(0),
          orMalloc(&pointer, 8),
          orFree(memory),
          orMallocHost(&pointer, 8),
          orMemGetInfo(&size, &size),
          orMemcpy(memory, &size, 8, orMemcpyDefault),
          orMemset(memory, 0, 1),
          orPointerGetAttributes(&attributes, memory),
          orGetKernelAddressOffset(&offset),
          orStreamCreate(&other),
          orStreamQuery(stream),
          orStreamSynchronize(nullptr),
          orStreamDestroy(stream),
          orEventCreate(&another),
          orEventRecord(event, stream),
          orEventQuery(event),
          orEventDestroy(event),
          orDeviceSynchronize(),
          orLaunchKernel([](void*) {}, nullptr, 0, nullptr),
          orLaunchKernelInline([](void*) {}, nullptr, stream),
          orLaunchHostFunc([](void*) {}, nullptr, nullptr)}) {
      failed += isRefused(error) ? 0 : 1;
    }
    // What needs no device still works.
    int count = 0;
    orDeviceProp properties;
    failed += orGetDeviceCount(&count) == orSuccess && count == 2 ? 0 : 1;
    failed += orGetDeviceProperties(&properties, 0) == orSuccess ? 0 : 1;
    return failed;
  });
  EXPECT_EQ(0, failed);
  // The parent goes on as before.
  EXPECT_OK(orMemset(memory, 0, 64));
  EXPECT_OK(orFree(memory));
  EXPECT_OK(orEventDestroy(event));
  EXPECT_OK(orStreamDestroy(stream));
}

TEST(Process, GrandchildIsRefusedToo) {
  ASSERT_OK(orDeviceSynchronize());
  EXPECT_EQ(0, inChild([] { return inChild([] { return isRefused(orDeviceSynchronize()) ? 0 : 1; }); }));
}

TEST_F(ProcessDeathTest, ForkBeforeTheFirstUseIsFine) {
  const auto body = [] {
    int count = 0;
    orGetDeviceCount(&count);  // asking is not using
    std::_Exit(inChild([] {
      void* memory = nullptr;
      return orMalloc(&memory, 64) == orSuccess && orMemset(memory, 0, 64) == orSuccess ? 0 : 1;
    }));
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST_F(ProcessDeathTest, ForkedChildThatTouchesDeviceMemoryIsTold) {
  const auto body = [] {
    static void* memory;
    orMalloc(&memory, 64);
    static void* const kernel_address = kernelAddress(memory);
    std::_Exit(inChild([] {
                 *static_cast<volatile char*>(kernel_address) = 1;
                 return 0;
               }) == 0);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "forked child(.|\n)*spawn");
}

TEST_F(ProcessDeathTest, ExitWithEverythingAlive) {
  const auto body = [] {
    void* memory = nullptr;
    orStream_t stream = nullptr;
    orEvent_t event = nullptr;
    orMalloc(&memory, 1 << 20);
    orMallocHost(&memory, 1 << 20);
    orStreamCreate(&stream);
    orEventCreate(&event);
    orLaunchHostFunc([](void*) {}, nullptr, stream);
    orEventRecord(event, stream);
    std::exit(0);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST_F(ProcessDeathTest, ExitWhileWorkIsRunningAndQueued) {
  if (launchMode() == "blocking") {
    GTEST_SKIP() << "no work is ever pending in this launch mode";
  }
  const auto body = [] {
    static std::atomic<bool> ended{false};
    const auto nap = [](void*) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      ended = true;
    };
    orStream_t stream = nullptr;
    orStreamCreate(&stream);
    for (int i = 0; i < 1000; ++i) {
      orLaunchHostFunc(nap, nullptr, stream);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    // Runs after the SDK has stopped: calls that would wait are refused instead of hanging.
    std::exit(0);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST_F(ProcessDeathTest, CallsAfterTheExitHandlersDoNotHang) {
  const auto body = [] {
    static void* memory;
    std::atexit([] {
      // Registered before the SDK's own handler, so it runs after it.
      int failed = orFree(memory) == orSuccess ? 0 : 1;
      failed += orStreamSynchronize(nullptr) == orSuccess || launchMode() != "blocking" ? 0 : 1;
      if (failed != 0) {
        std::_Exit(failed);
      }
    });
    orMalloc(&memory, 64);
    if (launchMode() != "blocking") {
      for (int i = 0; i < 100; ++i) {
        orLaunchHostFunc([](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }, nullptr, nullptr);
      }
    }
    std::exit(0);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}
