// Memory that two processes share.
#include "other_process.h"

#include <cstring>
#include <memory>
#include <vector>

namespace {

orIpcMemHandle_t handleOf(void* pointer) {
  orIpcMemHandle_t handle{};
  EXPECT_OK(orIpcGetMemHandle(&handle, pointer));
  return handle;
}

bool messageHas(const char* text) {
  return std::strstr(orGetLastErrorMessage(), text) != nullptr;
}

template <class T>
T readDevice(const void* pointer) {
  T value{};
  EXPECT_OK(orMemcpy(&value, pointer, sizeof(value), orMemcpyDeviceToHost));
  return value;
}

template <class T>
void writeDevice(void* pointer, const T& value) {
  EXPECT_OK(orMemcpy(pointer, &value, sizeof(value), orMemcpyHostToDevice));
}

// Doubles what it is sent, by a kernel, and closes it.
int doubleIt(Wire& wire) {
  const auto handle = wire.receive<orIpcMemHandle_t>();
  void* pointer = nullptr;
  EXPECT_OK(orIpcOpenMemHandle(&pointer, handle));
  int* const values = kernelAddress(static_cast<int*>(pointer));
  const auto kernel = [](void* arguments) {
    int* const values = *static_cast<int**>(arguments);
    for (int i = 0; i < 1000; ++i) {
      values[i] *= 2;
    }
  };
  EXPECT_OK(orLaunchKernel(kernel, &values, sizeof(values), nullptr));
  EXPECT_OK(orIpcCloseMemHandle(pointer));
  wire.signal();
  wire.await();
  return testing::Test::HasFailure();
}

// Looks at what opening does to this process.
int inspect(Wire& wire) {
  const auto handle = wire.receive<orIpcMemHandle_t>();
  std::size_t free_before = 0;
  std::size_t free = 0;
  std::size_t total = 0;
  EXPECT_OK(orMemGetInfo(&free_before, &total));
  void* pointer = nullptr;
  void* again = nullptr;
  EXPECT_OK(orIpcOpenMemHandle(&pointer, handle));
  EXPECT_OK(orIpcOpenMemHandle(&again, handle));
  EXPECT_EQ(pointer, again);
  EXPECT_OK(orMemGetInfo(&free, &total));
  EXPECT_EQ(free_before, free);

  orPointerAttributes attributes;
  EXPECT_OK(orPointerGetAttributes(&attributes, static_cast<char*>(pointer) + 99));
  EXPECT_EQ(orMemoryTypeDevice, attributes.type);
  EXPECT_EQ(1, attributes.device);
  EXPECT_EQ(pointer, attributes.basePointer);
  EXPECT_EQ(100u, attributes.size);
  EXPECT_EQ(orErrorInvalidValue, orMemset(pointer, 0, 101));

  EXPECT_EQ(orErrorInvalidPointer, orFree(pointer));
  EXPECT_TRUE(messageHas("belongs to another process"));
  orIpcMemHandle_t other;
  EXPECT_EQ(orErrorNotSupported, orIpcGetMemHandle(&other, pointer));
  EXPECT_TRUE(messageHas("pass on the handle"));
  EXPECT_EQ(orErrorInvalidPointer, orIpcCloseMemHandle(static_cast<char*>(pointer) + 1));

  EXPECT_OK(orIpcCloseMemHandle(pointer));
  EXPECT_OK(orMemset(pointer, 7, 100));
  EXPECT_OK(orIpcCloseMemHandle(pointer));
  EXPECT_EQ(orErrorInvalidPointer, orIpcCloseMemHandle(pointer));
  EXPECT_TRUE(messageHas("closed before"));
  EXPECT_EQ(orErrorInvalidPointer, orMemset(pointer, 7, 100));
  return testing::Test::HasFailure();
}

// Opens each handle that it is sent, and answers with the outcome, the message and the first byte.
struct Answer {
  orError_t error;
  char message[300];
  unsigned char first;
};

int openEach(Wire& wire) {
  while (true) {
    const auto handle = wire.receive<orIpcMemHandle_t>();
    if (handle.reserved[0] == 0) {
      return testing::Test::HasFailure();
    }
    void* pointer = nullptr;
    Answer answer{};
    answer.error = orIpcOpenMemHandle(&pointer, handle);
    if (answer.error == orSuccess) {
      answer.first = readDevice<unsigned char>(pointer);
    } else {
      std::strncpy(answer.message, orGetLastErrorMessage(), sizeof(answer.message) - 1);
    }
    wire.send(answer);
  }
}

// Makes an allocation, sends its handle, and ends when told to.
int lend(Wire& wire) {
  void* pointer = nullptr;
  EXPECT_OK(orMalloc(&pointer, 1 << 20));
  writeDevice(pointer, 4242);
  wire.send(handleOf(pointer));
  wire.await();
  return testing::Test::HasFailure();
}

const bool registered = registerRole("doubleIt", doubleIt) && registerRole("inspect", inspect) && registerRole("openEach", openEach) &&
                        registerRole("lend", lend);

Answer ask(OtherProcess& other, const orIpcMemHandle_t& handle) {
  other.wire().send(handle);
  return other.wire().receive<Answer>();
}

}  // namespace

TEST(Ipc, ProcessesSeeTheSameMemory) {
  // Neither at the start of a page nor a multiple of one.
  const DeviceMemory before(512);
  const DeviceMemory memory(1000 * sizeof(int));
  std::vector<int> values(1000);
  for (int i = 0; i < 1000; ++i) {
    values[static_cast<std::size_t>(i)] = i;
  }
  EXPECT_OK(orMemcpy(memory.pointer, values.data(), 1000 * sizeof(int), orMemcpyHostToDevice));
  OtherProcess other("doubleIt");
  other.wire().send(handleOf(memory.pointer));
  other.wire().await();
  // It has closed the memory, and still runs.
  EXPECT_OK(orMemcpy(values.data(), memory.pointer, 1000 * sizeof(int), orMemcpyDeviceToHost));
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(2 * i, values[static_cast<std::size_t>(i)]);
  }
  other.wire().signal();
  EXPECT_EQ(0, other.join());
}

TEST(Ipc, WhatOpeningDoes) {
  const DeviceGuard guard(1);
  const DeviceMemory memory(100);
  OtherProcess other("inspect");
  other.wire().send(handleOf(memory.pointer));
  EXPECT_EQ(0, other.join());
  EXPECT_EQ(7, readDevice<unsigned char>(static_cast<char*>(memory.pointer) + 99));
}

TEST(Ipc, HandlesAreOfAllocations) {
  const DeviceMemory memory(100);
  const DeviceMemory another(100);
  const orIpcMemHandle_t handle = handleOf(memory.pointer);
  const orIpcMemHandle_t same = handleOf(memory.pointer);
  const orIpcMemHandle_t different = handleOf(another.pointer);
  EXPECT_EQ(0, std::memcmp(&handle, &same, sizeof(handle)));
  EXPECT_NE(0, std::memcmp(&handle, &different, sizeof(handle)));

  orIpcMemHandle_t out;
  EXPECT_EQ(orErrorInvalidPointer, orIpcGetMemHandle(&out, static_cast<char*>(memory.pointer) + 8));
  EXPECT_TRUE(messageHas("give the start"));
  int local = 0;
  EXPECT_EQ(orErrorInvalidPointer, orIpcGetMemHandle(&out, &local));
  EXPECT_EQ(orErrorInvalidPointer, orIpcGetMemHandle(&out, nullptr));
  EXPECT_EQ(orErrorInvalidValue, orIpcGetMemHandle(nullptr, memory.pointer));
  EXPECT_EQ(orErrorInvalidPointer, orIpcCloseMemHandle(memory.pointer));
  void* pointer = nullptr;
  EXPECT_EQ(orErrorNotSupported, orIpcOpenMemHandle(&pointer, handle));
  EXPECT_TRUE(messageHas("made the handle itself"));
  EXPECT_EQ(orErrorInvalidHandle, orIpcOpenMemHandle(&pointer, orIpcMemHandle_t{}));
}

TEST(Ipc, HandleOfFreedMemoryIsRefused) {
  OtherProcess other("openEach");
  void* pointer = nullptr;
  ASSERT_OK(orMalloc(&pointer, 4096));
  const orIpcMemHandle_t stale = handleOf(pointer);
  EXPECT_OK(orFree(pointer));
  Answer answer = ask(other, stale);
  EXPECT_EQ(orErrorInvalidHandle, answer.error);
  EXPECT_NE(nullptr, std::strstr(answer.message, "has freed the memory")) << answer.message;

  // The same address and the same slot, but another allocation.
  void* next = nullptr;
  ASSERT_OK(orMalloc(&next, 4096));
  EXPECT_EQ(pointer, next);
  EXPECT_OK(orMemset(next, 99, 4096));
  const orIpcMemHandle_t fresh = handleOf(next);
  EXPECT_EQ(orErrorInvalidHandle, ask(other, stale).error);
  answer = ask(other, fresh);
  EXPECT_EQ(orSuccess, answer.error) << answer.message;
  EXPECT_EQ(99, answer.first);
  EXPECT_OK(orFree(next));

  for (const std::size_t byte : {0u, 4u, 8u, 16u, 24u, 32u, 40u}) {
    orIpcMemHandle_t altered = fresh;
    altered.reserved[byte] = static_cast<char>(altered.reserved[byte] ^ 0x15);
    answer = ask(other, altered);
    EXPECT_TRUE(answer.error == orErrorInvalidHandle || answer.error == orErrorNotSupported) << byte << ' ' << answer.message;
  }
  other.wire().send(orIpcMemHandle_t{});
  EXPECT_EQ(0, other.join());
}

TEST(Ipc, ExporterThatHasEnded) {
  OtherProcess other("lend");
  const auto handle = other.wire().receive<orIpcMemHandle_t>();
  void* pointer = nullptr;
  ASSERT_OK(orIpcOpenMemHandle(&pointer, handle));
  EXPECT_EQ(4242, readDevice<int>(pointer));
  other.kill();
  // What is open stays.
  EXPECT_EQ(4242, readDevice<int>(pointer));
  EXPECT_OK(orIpcCloseMemHandle(pointer));
  EXPECT_EQ(orErrorInvalidHandle, orIpcOpenMemHandle(&pointer, handle));
  EXPECT_TRUE(messageHas("has ended")) << orGetLastErrorMessage();
}

TEST(Ipc, ResetClosesAndWithdraws) {
  OtherProcess lender("lend");
  const auto theirs = lender.wire().receive<orIpcMemHandle_t>();
  void* opened = nullptr;
  ASSERT_OK(orIpcOpenMemHandle(&opened, theirs));
  void* own = nullptr;
  ASSERT_OK(orMalloc(&own, 4096));
  const orIpcMemHandle_t mine = handleOf(own);

  ASSERT_OK(orDeviceFail(0, "to see what it does"));
  EXPECT_NE(orSuccess, orIpcCloseMemHandle(opened));
  EXPECT_TRUE(messageHas("to see what it does"));
  EXPECT_NE(orSuccess, orIpcOpenMemHandle(&opened, theirs));
  ASSERT_OK(orDeviceReset());

  EXPECT_EQ(orErrorInvalidPointer, orMemset(opened, 0, 4));
  EXPECT_EQ(orErrorInvalidPointer, orIpcCloseMemHandle(opened));
  OtherProcess other("openEach");
  EXPECT_EQ(orErrorInvalidHandle, ask(other, mine).error);
  ASSERT_OK(orIpcOpenMemHandle(&opened, theirs));
  EXPECT_EQ(4242, readDevice<int>(opened));
  EXPECT_OK(orIpcCloseMemHandle(opened));
  other.wire().send(orIpcMemHandle_t{});
  EXPECT_EQ(0, other.join());
}

TEST(Ipc, ManyAtOnce) {
  constexpr std::size_t kCount = 40;
  std::vector<std::unique_ptr<DeviceMemory>> memory;
  std::vector<orIpcMemHandle_t> handles;
  OtherProcess other("openEach");
  for (std::size_t i = 0; i < kCount; ++i) {
    memory.push_back(std::make_unique<DeviceMemory>((i % 4 == 0 ? 3u << 20 : 700u) + 1000 * i));
    EXPECT_OK(orMemset(memory.back()->pointer, static_cast<int>(i), 1));
    handles.push_back(handleOf(memory.back()->pointer));
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    const Answer answer = ask(other, handles[i]);
    EXPECT_EQ(orSuccess, answer.error) << answer.message;
    EXPECT_EQ(i, answer.first);
  }
  other.wire().send(orIpcMemHandle_t{});
  EXPECT_EQ(0, other.join());
}
