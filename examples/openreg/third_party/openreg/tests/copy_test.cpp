#include "support.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

namespace {

void* at(void* pointer, std::size_t offset) {
  return static_cast<char*>(pointer) + offset;
}

std::vector<char> pattern(std::size_t size) {
  std::vector<char> data(size);
  std::iota(data.begin(), data.end(), static_cast<char>(1));
  return data;
}

}  // namespace

TEST(Copy, CopiesInAllDirections) {
  constexpr std::size_t kSize = 300000;
  const std::vector<char> source = pattern(kSize);
  std::vector<char> result(kSize);
  const DeviceMemory a(kSize);
  const DeviceGuard guard(1);
  const DeviceMemory b(kSize);
  for (const bool explicit_kind : {true, false}) {
    const auto kind = [explicit_kind](orMemcpyKind given) { return explicit_kind ? given : orMemcpyDefault; };
    std::fill(result.begin(), result.end(), 0);
    EXPECT_OK(orMemcpy(a.pointer, source.data(), kSize, kind(orMemcpyHostToDevice)));
    EXPECT_OK(orMemcpy(b.pointer, a.pointer, kSize, kind(orMemcpyDeviceToDevice)));
    EXPECT_OK(orMemcpy(result.data(), b.pointer, kSize, kind(orMemcpyDeviceToHost)));
    EXPECT_EQ(source, result);
    std::fill(result.begin(), result.end(), 0);
    EXPECT_OK(orMemcpy(result.data(), source.data(), kSize, kind(orMemcpyHostToHost)));
    EXPECT_EQ(source, result);
  }
}

TEST(Copy, WrongCopiesAreRefused) {
  const DeviceMemory a(1024);
  const DeviceMemory b(1024);
  char host[4096] = {};
  EXPECT_EQ(orErrorInvalidMemcpyDirection, orMemcpy(a.pointer, host, 8, orMemcpyDeviceToHost));
  EXPECT_EQ(orErrorInvalidMemcpyDirection, orMemcpy(a.pointer, b.pointer, 8, orMemcpyHostToHost));
  EXPECT_EQ(orErrorInvalidMemcpyDirection, orMemcpy(host, host + 64, 8, orMemcpyHostToDevice));
  EXPECT_EQ(orErrorInvalidValue, orMemcpy(a.pointer, host, 8, static_cast<orMemcpyKind>(5)));
  EXPECT_EQ(orErrorInvalidValue, orMemcpy(nullptr, host, 8, orMemcpyDefault));
  EXPECT_EQ(orErrorInvalidValue, orMemcpy(host, nullptr, 8, orMemcpyDefault));
  EXPECT_EQ(orErrorInvalidValue, orMemcpy(a.pointer, host, 1025, orMemcpyDefault));
  EXPECT_EQ(orErrorInvalidValue, orMemcpy(at(a.pointer, 1020), host, 8, orMemcpyDefault));
  EXPECT_EQ(orErrorInvalidValue, orMemcpy(a.pointer, host, ~std::size_t{0}, orMemcpyDefault));
  EXPECT_EQ(orErrorInvalidValue, orMemcpy(a.pointer, at(a.pointer, 8), 16, orMemcpyDefault));
  EXPECT_EQ(orErrorInvalidValue, orMemcpy(host + 8, host, 16, orMemcpyDefault));
  EXPECT_OK(orMemcpy(a.pointer, at(a.pointer, 8), 8, orMemcpyDefault));
  EXPECT_OK(orMemcpy(nullptr, nullptr, 0, orMemcpyDefault));
  void* freed = nullptr;
  ASSERT_OK(orMalloc(&freed, 64));
  ASSERT_OK(orFree(freed));
  EXPECT_EQ(orErrorInvalidPointer, orMemcpy(freed, host, 8, orMemcpyDefault));
  EXPECT_EQ(orErrorInvalidPointer, orMemset(freed, 0, 8));
  EXPECT_EQ(orErrorInvalidPointer, orMemset(host, 0, 8));
  EXPECT_EQ(orErrorInvalidValue, orMemset(a.pointer, 0, 1025));
  EXPECT_EQ(orErrorInvalidValue, orMemset(nullptr, 0, 1));
}

TEST(Copy, OverlapsAreRefusedAndNeighboursAreNot) {
  const DeviceMemory memory(1024);
  const StreamGuard stream;
  char host[64] = {};
  for (int i = 0; i < 64; ++i) {
    host[i] = static_cast<char>(i);
  }
  ASSERT_OK(orMemcpy(memory.pointer, host, 64, orMemcpyDefault));
  for (const std::size_t distance : {0u, 1u, 31u}) {
    void* const other = at(memory.pointer, distance);
    EXPECT_EQ(orErrorInvalidValue, orMemcpy(other, memory.pointer, 32, orMemcpyDeviceToDevice)) << distance;
    EXPECT_EQ(orErrorInvalidValue, orMemcpyAsync(memory.pointer, other, 32, orMemcpyDefault, stream)) << distance;
    EXPECT_NE(nullptr, std::strstr(orGetLastErrorMessage(), "overlap"));
  }
  char result[64];
  ASSERT_OK(orMemcpy(result, memory.pointer, 64, orMemcpyDefault));
  EXPECT_EQ(0, std::memcmp(host, result, 64));  // nothing was written
  EXPECT_OK(orMemcpyAsync(at(memory.pointer, 32), memory.pointer, 32, orMemcpyDefault, stream));
  EXPECT_OK(orStreamSynchronize(stream));
  ASSERT_OK(orMemcpy(result, memory.pointer, 64, orMemcpyDefault));
  EXPECT_EQ(0, std::memcmp(host, result + 32, 32));
}

TEST(Copy, FillSetsExactlyItsBytes) {
  const DeviceMemory memory(1000);
  char result[1000];
  ASSERT_OK(orMemset(memory.pointer, 0x101, 1000));
  ASSERT_OK(orMemsetAsync(at(memory.pointer, 100), 7, 200, nullptr));
  ASSERT_OK(orMemcpy(result, memory.pointer, 1000, orMemcpyDeviceToHost));
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(i >= 100 && i < 300 ? 7 : 1, result[i]) << i;
  }
}

TEST(Copy, PinnedCopiesOverlapWithTheHost) {
  SKIP_IF_BLOCKING();
  constexpr std::size_t kSize = 1 << 20;
  void* host = nullptr;
  ASSERT_OK(orMallocHost(&host, kSize));
  std::memset(host, 3, kSize);
  const DeviceMemory memory(kSize);
  const StreamGuard stream;
  Gate gate;
  gate.block(stream);
  EXPECT_OK(orMemcpyAsync(memory.pointer, host, kSize, orMemcpyHostToDevice, stream));  // behind the gate, and yet returns
  EXPECT_OK(orMemcpyAsync(memory.pointer, host, 8, orMemcpyHostToDevice, stream));
  EXPECT_EQ(orErrorNotReady, orStreamQuery(stream));
  gate.open();
  EXPECT_OK(orStreamSynchronize(stream));
  char last = 0;
  EXPECT_OK(orMemcpy(&last, at(memory.pointer, kSize - 1), 1, orMemcpyDefault));
  EXPECT_EQ(3, last);
  EXPECT_OK(orFreeHost(host));
}

TEST(Copy, PageableCopiesAreSynchronousAndInOrder) {
  constexpr std::size_t kSize = 1 << 20;
  const DeviceMemory memory(kSize);
  const StreamGuard stream;
  std::vector<char> result(kSize);
  ASSERT_OK(orMemset(memory.pointer, 0, kSize));
  for (char value = 1; value < 20; ++value) {
    ASSERT_OK(orMemsetAsync(memory.pointer, value, kSize, stream));  // queued
    ASSERT_OK(orMemcpyAsync(result.data(), memory.pointer, kSize, orMemcpyDeviceToHost, stream));
    ASSERT_EQ(std::vector<char>(kSize, value), result);
  }
}
