#include "support.h"

#include <thread>

namespace {

// Death tests run in a process of their own, where the environment has not been read yet.
class DeviceDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

[[noreturn]] void leave(bool good) {
  if (!good) {
    std::fprintf(stderr, "%s\n", orGetLastErrorMessage());
  }
  std::_Exit(good ? 0 : 1);
}

}  // namespace

TEST(Device, CurrentDeviceBelongsToTheThread) {
  int count = 0;
  ASSERT_OK(orGetDeviceCount(&count));
  ASSERT_GE(count, 2);
  const DeviceGuard guard(1);
  std::thread([] {
    int device = -1;
    EXPECT_OK(orGetDevice(&device));
    EXPECT_EQ(0, device);
  }).join();
  int device = -1;
  EXPECT_OK(orGetDevice(&device));
  EXPECT_EQ(1, device);
}

TEST(Device, IndexOutOfRangeIsRefused) {
  int count = 0;
  ASSERT_OK(orGetDeviceCount(&count));
  int value = 0;
  orDeviceProp properties;
  for (const int index : {-1, count, 1000}) {
    EXPECT_EQ(orErrorInvalidDevice, orSetDevice(index));
    EXPECT_EQ(orErrorInvalidDevice, orGetDeviceProperties(&properties, index));
    EXPECT_EQ(orErrorInvalidDevice, orDeviceCanAccessPeer(&value, index, 0));
    EXPECT_EQ(orErrorInvalidDevice, orDeviceCanAccessPeer(&value, 0, index));
  }
  EXPECT_OK(orGetDevice(&value));
  EXPECT_EQ(0, value);
}

TEST(Device, Properties) {
  orDeviceProp properties;
  ASSERT_OK(orGetDeviceProperties(&properties, 1));
  EXPECT_STRNE("", properties.name);
  EXPECT_EQ(512u, properties.allocationAlignment);
  EXPECT_GE(properties.multiProcessorCount, 1);
  EXPECT_GE(properties.maxConcurrentStreams, 2);
  std::size_t free = 0;
  std::size_t total = 0;
  ASSERT_OK(orMemGetInfo(&free, &total));
  EXPECT_EQ(total, properties.totalGlobalMem);
}

TEST(Device, PeersAndPriorities) {
  int can = -1;
  EXPECT_OK(orDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(1, can);
  EXPECT_OK(orDeviceCanAccessPeer(&can, 1, 1));
  EXPECT_EQ(0, can);
  int least = 9;
  int greatest = 9;
  EXPECT_OK(orDeviceGetStreamPriorityRange(&least, &greatest));
  EXPECT_EQ(0, least);
  EXPECT_EQ(-2, greatest);
}

TEST(Device, NullOutputsAreRefused) {
  EXPECT_EQ(orErrorInvalidValue, orGetDeviceCount(nullptr));
  EXPECT_EQ(orErrorInvalidValue, orGetDevice(nullptr));
  EXPECT_EQ(orErrorInvalidValue, orGetDeviceProperties(nullptr, 0));
  EXPECT_EQ(orErrorInvalidValue, orDeviceGetStreamPriorityRange(nullptr, nullptr));
  EXPECT_EQ(orErrorInvalidValue, orDeviceCanAccessPeer(nullptr, 0, 1));
  EXPECT_EQ(orErrorInvalidValue, orRuntimeGetVersion(nullptr));
}

TEST(Device, SynchronizeCoversExactlyTheCurrentDevice) {
  SKIP_IF_BLOCKING();
  const StreamGuard on_0;
  Gate gate;
  gate.block(on_0);
  {
    const DeviceGuard guard(1);
    EXPECT_OK(orDeviceSynchronize());  // would never return if it covered device 0
  }
  EXPECT_EQ(orErrorNotReady, orStreamQuery(on_0));
  std::thread opener([&gate] { gate.open(); });
  EXPECT_OK(orDeviceSynchronize());
  EXPECT_OK(orStreamQuery(on_0));
  opener.join();
}

TEST_F(DeviceDeathTest, EnvironmentSetsCountAndMemory) {
  const auto check = [] {
    setenv("OPENREG_NUM_DEVICES", "3", 1);
    setenv("OPENREG_DEVICE_MEMORY", "64m", 1);
    int count = 0;
    orDeviceProp properties = {};
    const bool good = orGetDeviceCount(&count) == orSuccess && orGetDeviceProperties(&properties, 2) == orSuccess;
    leave(good && count == 3 && properties.totalGlobalMem == (64u << 20));
  };
  EXPECT_EXIT(check(), testing::ExitedWithCode(0), "");
}

TEST_F(DeviceDeathTest, NoDevices) {
  const auto check = [] {
    setenv("OPENREG_NUM_DEVICES", "0", 1);
    int count = 9;
    void* pointer = nullptr;
    const bool good = orGetDeviceCount(&count) == orSuccess && count == 0;
    leave(good && orSetDevice(0) == orErrorInvalidDevice && orMalloc(&pointer, 1) == orErrorInvalidDevice);
  };
  EXPECT_EXIT(check(), testing::ExitedWithCode(0), "");
}

TEST_F(DeviceDeathTest, NonsenseInTheEnvironmentIsRefused) {
  const auto check = [](const char* name, const char* value) {
    setenv(name, value, 1);
    int count = 0;
    void* pointer = nullptr;
    const bool refused = orGetDeviceCount(&count) == orErrorInitialization && orMalloc(&pointer, 1) == orErrorInitialization;
    const bool explained = std::string(orGetLastErrorMessage()).find(name) != std::string::npos;
    leave(refused && explained);
  };
  for (const char* value : {"", "two", "-1", "65", "1.5", "99999999999"}) {
    EXPECT_EXIT(check("OPENREG_NUM_DEVICES", value), testing::ExitedWithCode(0), "");
  }
  for (const char* value : {"", "much", "-4G", "4X", "4GG", "0", "99999999999999999999", "17000000000T", "1023K"}) {
    EXPECT_EXIT(check("OPENREG_DEVICE_MEMORY", value), testing::ExitedWithCode(0), "");
  }
  for (const char* value : {"", "fast", "Inline"}) {
    EXPECT_EXIT(check("OPENREG_LAUNCH", value), testing::ExitedWithCode(0), "");
  }
}
