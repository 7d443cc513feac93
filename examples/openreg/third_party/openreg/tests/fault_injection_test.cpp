#include "support.h"

#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

class FaultDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

bool messageHas(const char* part) {
  return std::string(orGetLastErrorMessage()).find(part) != std::string::npos;
}

double millisecondsOf(auto&& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

struct Delay {
  explicit Delay(unsigned microseconds) { EXPECT_OK(orSetKernelDelay(microseconds)); }
  ~Delay() { EXPECT_OK(orSetKernelDelay(0)); }
};

std::string contentOf(const std::string& path) {
  std::stringstream content;
  content << std::ifstream(path).rdbuf();
  return content.str();
}

}  // namespace

TEST(FaultInjection, TheNthCallFailsOnce) {
  void* pointer = nullptr;
  ASSERT_OK(orInjectFault("orMalloc", 3, orSuccess));
  for (int call = 1; call <= 5; ++call) {
    pointer = nullptr;
    EXPECT_EQ(call == 3 ? orErrorMemoryAllocation : orSuccess, orMalloc(&pointer, 64)) << call;
    EXPECT_EQ(call == 3, pointer == nullptr);
    EXPECT_OK(orFree(pointer));
  }
  EXPECT_TRUE(messageHas("injected"));
  orGetLastError();
}

TEST(FaultInjection, ErrorFitsTheFunctionOrIsGiven) {
  EXPECT_OK(orInjectFault("orLaunchKernel", 1, orSuccess));
  EXPECT_EQ(orErrorLaunchFailure, orLaunchKernel([](void*) { FAIL(); }, nullptr, 0, nullptr));
  EXPECT_OK(orInjectFault("orEventCreate", 1, orSuccess));
  orEvent_t event = nullptr;
  EXPECT_EQ(orErrorUnknown, orEventCreate(&event));
  EXPECT_OK(orInjectFault("orEventCreate", 1, orErrorMemoryAllocation));
  EXPECT_EQ(orErrorMemoryAllocation, orEventCreate(&event));
  EXPECT_EQ(orErrorMemoryAllocation, orGetLastError());
  EXPECT_OK(orInjectFault("orGetDeviceCount", 1, orErrorInitialization));
  int count = 0;
  EXPECT_EQ(orErrorInitialization, orGetDeviceCount(&count));
  EXPECT_OK(orGetDeviceCount(&count));
}

TEST(FaultInjection, PlansAreReplacedAndDropped) {
  int device = 0;
  EXPECT_OK(orInjectFault("orGetDevice", 1, orSuccess));
  EXPECT_OK(orInjectFault("orSetDevice", 2, orSuccess));
  EXPECT_OK(orInjectFault("orGetDevice", 0, orSuccess));
  EXPECT_OK(orGetDevice(&device));
  EXPECT_OK(orSetDevice(device));
  EXPECT_EQ(orErrorUnknown, orSetDevice(device));
  EXPECT_EQ(orErrorInvalidValue, orInjectFault("orNothing", 1, orSuccess));
  EXPECT_TRUE(messageHas("orNothing"));
  EXPECT_EQ(orErrorInvalidValue, orInjectFault(nullptr, 1, orSuccess));
  EXPECT_EQ(orErrorInvalidValue, orInjectFault("orMalloc", 1, static_cast<orError_t>(400)));
}

TEST(FaultInjection, EveryFunctionOfTheHeaderIsKnown) {
  const std::string header = contentOf(SDK_HEADER);
  ASSERT_FALSE(header.empty());
  const std::string marker = "_API orError_t ";
  int functions = 0;
  for (std::size_t at = header.find(marker); at != std::string::npos; at = header.find(marker, at)) {
    at += marker.size();
    const std::string name = header.substr(at, header.find('(', at) - at);
    const bool cannot_fail = name.ends_with("LastError") || name.ends_with("InjectFault");
    EXPECT_EQ(cannot_fail ? orErrorInvalidValue : orSuccess, orInjectFault(name.c_str(), 0, orSuccess)) << name;
    ++functions;
  }
  EXPECT_GT(functions, 50);
}

TEST_F(FaultDeathTest, EnvironmentCountsFromTheFirstCall) {
  const auto body = [] {
    setenv("OPENREG_FAIL", "orMalloc:2,orEventCreate:1", 1);
    void* pointer = nullptr;
    orEvent_t event = nullptr;
    const bool right = orMalloc(&pointer, 8) == orSuccess && orMalloc(&pointer, 8) == orErrorMemoryAllocation &&
                       orMalloc(&pointer, 8) == orSuccess && orEventCreate(&event) == orErrorUnknown;
    std::_Exit(right ? 0 : 1);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST_F(FaultDeathTest, NonsenseInTheEnvironmentIsRefused) {
  const auto refused = [](const char* name, const char* value, const char* expected) {
    setenv(name, value, 1);
    void* pointer = nullptr;
    std::_Exit(orMalloc(&pointer, 8) == orErrorInitialization && messageHas(expected) ? 0 : 1);
  };
  EXPECT_EXIT(refused("OPENREG_FAIL", "orMaloc:2", "orMaloc is no function"), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(refused("OPENREG_FAIL", "orMalloc", "which call"), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(refused("OPENREG_FAIL", "orMalloc:0", "which call"), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(refused("OPENREG_DELAY_US", "long", "microseconds"), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(refused("OPENREG_STICKY_ERRORS", "maybe", "0 or 1"), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(refused("OPENREG_LOG", "/nonexistent/folder/log", "cannot write"), testing::ExitedWithCode(0), "");
}

TEST(FaultInjection, DelayShowsMissingSynchronisation) {
  const StreamGuard stream;
  const DeviceMemory memory(4);
  const Delay delay(20000);
  int done = 0;
  int* const pointer = &done;
  const auto body = [](void* arguments) { **static_cast<int* const*>(arguments) = 1; };
  const double submission = millisecondsOf([&] { EXPECT_OK(orLaunchKernel(body, &pointer, sizeof(pointer), stream)); });
  if (launchMode() == "blocking") {
    EXPECT_GE(submission, 20);
  } else {
    EXPECT_EQ(orErrorNotReady, orStreamQuery(stream));
  }
  EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(1, done);
  EXPECT_GE(millisecondsOf([&] {
              EXPECT_OK(orMemsetAsync(memory.pointer, 1, 4, stream));
              EXPECT_OK(orStreamSynchronize(stream));
            }),
            20);
  EXPECT_GE(millisecondsOf([&] { EXPECT_OK(orMemset(memory.pointer, 1, 4)); }), 20);
  EXPECT_GE(millisecondsOf([&] { EXPECT_OK(orLaunchKernelInline([](void*) {}, nullptr, stream)); }), 20);
  EXPECT_EQ(orErrorInvalidValue, orSetKernelDelay(~0u));
}

TEST(FaultInjection, DelayHoldsForGraphs) {
  const StreamGuard stream;
  orGraph_t graph = nullptr;
  orGraphExec_t exec = nullptr;
  ASSERT_OK(orStreamBeginCapture(stream, orStreamCaptureModeGlobal));
  for (int i = 0; i < 3; ++i) {
    EXPECT_OK(orLaunchKernel([](void*) {}, nullptr, 0, stream));
  }
  ASSERT_OK(orStreamEndCapture(stream, &graph));
  ASSERT_OK(orGraphInstantiate(&exec, graph));
  const Delay delay(5000);
  EXPECT_GE(millisecondsOf([&] {
              EXPECT_OK(orGraphLaunch(exec, stream));
              EXPECT_OK(orStreamSynchronize(stream));
            }),
            15);
  EXPECT_OK(orGraphExecDestroy(exec));
  EXPECT_OK(orGraphDestroy(graph));
}

TEST(LaunchLog, HasALineForEachSubmission) {
  const std::string path = testing::TempDir() + "/launch_log_test.txt";
  const StreamGuard stream;
  const EventGuard event;
  const DeviceMemory memory(64);
  ASSERT_OK(orSetLaunchLog(path.c_str()));
  EXPECT_OK(orLaunchKernel([](void*) {}, &path, 8, stream));
  EXPECT_OK(orMemsetAsync(memory.pointer, 3, 48, stream));
  EXPECT_OK(orMemcpyAsync(memory.pointer, static_cast<char*>(memory.pointer) + 32, 32, orMemcpyDefault, stream));
  EXPECT_OK(orEventRecord(event, stream));
  EXPECT_OK(orStreamWaitEvent(nullptr, event, 0));
  EXPECT_OK(orLaunchHostFunc([](void*) {}, nullptr, stream));
  EXPECT_OK(orStreamSynchronize(stream));
  ASSERT_OK(orSetLaunchLog(nullptr));
  EXPECT_OK(orLaunchKernel([](void*) {}, nullptr, 0, stream));
  EXPECT_OK(orStreamSynchronize(stream));
  const std::string content = contentOf(path);
  std::remove(path.c_str());
  char address[32];
  std::snprintf(address, sizeof(address), "%p", memory.pointer);
  std::istringstream lines(content);
  std::string line;
  const std::vector<std::vector<std::string>> expected = {
      {"kernel", "size=8", "device=0"},
      {"fill", "value=0x3", "size=48", address},
      {"copy", "size=32", address},
      {"record"},
      {"wait"},
      {"host-function"},
  };
  for (const std::vector<std::string>& parts : expected) {
    ASSERT_TRUE(std::getline(lines, line)) << content;
    for (const std::string& part : parts) {
      EXPECT_NE(std::string::npos, line.find(part)) << part << " is not in " << line;
    }
  }
  EXPECT_FALSE(std::getline(lines, line)) << line;
  EXPECT_EQ(orErrorInvalidValue, orSetLaunchLog("/nonexistent/folder/log"));
}
