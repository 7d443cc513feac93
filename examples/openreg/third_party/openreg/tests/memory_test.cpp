#include "support.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace {

std::size_t freeBytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  EXPECT_OK(orMemGetInfo(&free, &total));
  return free;
}

void* at(void* pointer, std::size_t offset) {
  return static_cast<char*>(pointer) + offset;
}

long residentPages() {
  long total = 0;
  long resident = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) {
    return -1;
  }
  const int fields = std::fscanf(file, "%ld %ld", &total, &resident);
  std::fclose(file);
  return fields == 2 ? resident : -1;
}

}  // namespace

TEST(Memory, AllocationsAreAlignedAndCounted) {
  const std::size_t before = freeBytes();
  {
    const DeviceMemory a(1);
    const DeviceMemory b(513);
    const DeviceMemory c(3 << 20);
    for (void* const pointer : {a.pointer, b.pointer, c.pointer}) {
      EXPECT_EQ(0u, reinterpret_cast<std::uintptr_t>(pointer) % 512);
    }
    EXPECT_EQ(before - 512 - 1024 - (3u << 20), freeBytes());
  }
  EXPECT_EQ(before, freeBytes());
}

TEST(Memory, SizeZeroIsNull) {
  void* pointer = &pointer;
  EXPECT_OK(orMalloc(&pointer, 0));
  EXPECT_EQ(nullptr, pointer);
  EXPECT_OK(orFree(nullptr));
  pointer = &pointer;
  EXPECT_OK(orMallocHost(&pointer, 0));
  EXPECT_EQ(nullptr, pointer);
  EXPECT_OK(orFreeHost(nullptr));
  EXPECT_EQ(orErrorInvalidValue, orMalloc(nullptr, 8));
  EXPECT_EQ(orErrorInvalidValue, orMallocHost(nullptr, 8));
}

TEST(Memory, OutOfMemoryHasFigures) {
  const std::size_t free = freeBytes();
  void* pointer = nullptr;
  for (const std::size_t size : {free + 1, ~std::size_t{0}, ~std::size_t{0} - 511}) {
    EXPECT_EQ(orErrorMemoryAllocation, orMalloc(&pointer, size));
    EXPECT_NE(std::string::npos, std::string(orGetLastErrorMessage()).find(std::to_string(size)));
  }
  EXPECT_EQ(nullptr, pointer);
  ASSERT_OK(orMalloc(&pointer, free));  // all there is
  EXPECT_EQ(0u, freeBytes());
  void* none = nullptr;
  EXPECT_EQ(orErrorMemoryAllocation, orMalloc(&none, 1));
  EXPECT_OK(orFree(pointer));
  EXPECT_EQ(free, freeBytes());
}

TEST(Memory, WrongFreesAreRefused) {
  const std::size_t before = freeBytes();
  void* pointer = nullptr;
  ASSERT_OK(orMalloc(&pointer, 4096));
  int local = 0;
  EXPECT_EQ(orErrorInvalidPointer, orFree(&local));
  EXPECT_EQ(orErrorInvalidPointer, orFree(at(pointer, 512)));
  EXPECT_EQ(orErrorInvalidPointer, orFree(at(pointer, 1)));
  EXPECT_EQ(orErrorInvalidPointer, orFree(at(pointer, 4096)));
  EXPECT_EQ(orErrorInvalidPointer, orFree(kernelAddress(pointer)));
  EXPECT_EQ(orErrorInvalidPointer, orFreeHost(pointer));
  EXPECT_OK(orFree(pointer));
  EXPECT_EQ(orErrorInvalidPointer, orFree(pointer));
  void* host = nullptr;
  ASSERT_OK(orMallocHost(&host, 100));
  EXPECT_EQ(orErrorInvalidPointer, orFree(host));
  EXPECT_EQ(orErrorInvalidPointer, orFreeHost(at(host, 8)));
  EXPECT_OK(orFreeHost(host));
  EXPECT_EQ(orErrorInvalidPointer, orFreeHost(host));
  EXPECT_EQ(orErrorInvalidPointer, orFreeHost(&local));
  EXPECT_EQ(before, freeBytes());
}

TEST(Memory, NeighboursCoalesceInAnyOrder) {
  const std::size_t before = freeBytes();
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    std::vector<void*> pointers(40);
    for (void*& pointer : pointers) {
      ASSERT_OK(orMalloc(&pointer, 1 + random() % (5 << 20)));
    }
    std::shuffle(pointers.begin(), pointers.end(), random);
    for (void* const pointer : pointers) {
      ASSERT_OK(orFree(pointer));
    }
    ASSERT_EQ(before, freeBytes());
  }
  const DeviceMemory everything(before);  // one piece again
}

TEST(Memory, AllocationsNeverOverlap) {
  const auto body = [](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::pair<void*, std::size_t>> mine;
    const auto check = [seed](std::pair<void*, std::size_t> block) {
      unsigned value = 0;
      EXPECT_OK(orMemcpy(&value, block.first, sizeof(value), orMemcpyDeviceToHost));
      EXPECT_EQ(seed, value);
      EXPECT_OK(orMemcpy(&value, at(block.first, block.second - sizeof(value)), sizeof(value), orMemcpyDefault));
      EXPECT_EQ(seed, value);
      EXPECT_OK(orFree(block.first));
    };
    for (int i = 0; i < 200; ++i) {
      void* pointer = nullptr;
      const std::size_t size = 8 + random() % 20000;
      ASSERT_OK(orMalloc(&pointer, size));
      EXPECT_OK(orMemcpy(pointer, &seed, sizeof(seed), orMemcpyHostToDevice));
      EXPECT_OK(orMemcpy(at(pointer, size - sizeof(seed)), &seed, sizeof(seed), orMemcpyDefault));
      mine.emplace_back(pointer, size);
      if (mine.size() > 16) {
        std::swap(mine[random() % mine.size()], mine.back());
        check(mine.back());
        mine.pop_back();
      }
    }
    std::for_each(mine.begin(), mine.end(), check);
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    threads.emplace_back(body, seed);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST(Memory, FreedPagesGoBackToTheSystem) {
  constexpr std::size_t kSize = std::size_t{64} << 20;
  const long before = residentPages();
  if (before < 0 || kSanitized) {
    GTEST_SKIP() << "the system does not tell, or tells what the sanitizer needs as well";
  }
  const long pages = static_cast<long>(kSize / static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
  void* pointer = nullptr;
  ASSERT_OK(orMalloc(&pointer, kSize));
  ASSERT_OK(orMemset(pointer, 1, kSize));
  EXPECT_GE(residentPages() - before, pages * 9 / 10);
  ASSERT_OK(orFree(pointer));
  EXPECT_LE(residentPages() - before, pages / 10);
}

TEST(Memory, ManySmallBlocksGoBackToo) {
  constexpr std::size_t kBlocks = 16384;
  std::vector<void*> blocks(kBlocks);
  for (void*& block : blocks) {
    ASSERT_OK(orMalloc(&block, 512));
    ASSERT_OK(orMemset(block, 1, 512));
  }
  for (std::size_t i = 0; i < kBlocks; i += 2) {
    ASSERT_OK(orFree(blocks[i]));
  }
  for (std::size_t i = 1; i < kBlocks; i += 2) {
    ASSERT_OK(orFree(blocks[i]));
  }
  const DeviceMemory again(kBlocks * 512);
  std::vector<unsigned char> resident(kBlocks * 512 / static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
  const auto start = reinterpret_cast<std::uintptr_t>(kernelAddress(blocks[0]));
  const std::uintptr_t page_start =
      start / static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  ASSERT_EQ(0, mincore(reinterpret_cast<void*>(page_start), kBlocks * 512, resident.data()));
  const auto count = std::count_if(resident.begin(), resident.end(), [](unsigned char page) { return (page & 1) != 0; });
  EXPECT_LE(count, 4);
}

TEST(Memory, PointerAttributes) {
  const DeviceGuard guard(1);
  const DeviceMemory device(1000);
  void* host = nullptr;
  ASSERT_OK(orMallocHost(&host, 5000));
  orPointerAttributes attributes;
  ASSERT_OK(orPointerGetAttributes(&attributes, at(device.pointer, 999)));
  EXPECT_EQ(orMemoryTypeDevice, attributes.type);
  EXPECT_EQ(1, attributes.device);
  EXPECT_EQ(device.pointer, attributes.basePointer);
  EXPECT_EQ(1000u, attributes.size);
  ASSERT_OK(orPointerGetAttributes(&attributes, at(host, 4999)));
  EXPECT_EQ(orMemoryTypeHost, attributes.type);
  EXPECT_EQ(-1, attributes.device);
  EXPECT_EQ(host, attributes.basePointer);
  EXPECT_EQ(5000u, attributes.size);
  int local = 0;
  for (const void* const pointer :
       {static_cast<const void*>(&local), static_cast<const void*>(nullptr), static_cast<const void*>(at(device.pointer, 1000)),
        static_cast<const void*>(at(host, 5000))}) {
    ASSERT_OK(orPointerGetAttributes(&attributes, pointer));
    EXPECT_EQ(orMemoryTypeUnregistered, attributes.type);
    EXPECT_EQ(-1, attributes.device);
    EXPECT_EQ(nullptr, attributes.basePointer);
    EXPECT_EQ(0u, attributes.size);
  }
  EXPECT_EQ(orErrorInvalidValue, orPointerGetAttributes(nullptr, &local));
  ASSERT_OK(orFreeHost(host));
  ASSERT_OK(orPointerGetAttributes(&attributes, host));
  EXPECT_EQ(orMemoryTypeUnregistered, attributes.type);
}

TEST(Memory, FreeWaitsForTheDevice) {
  SKIP_IF_BLOCKING();
  void* memory = nullptr;
  ASSERT_OK(orMalloc(&memory, 1 << 20));
  const StreamGuard stream;
  Gate gate;
  gate.block(stream);
  ASSERT_OK(orMemsetAsync(memory, 1, 1 << 20, stream));
  gate.awaitArrival();
  std::thread opener([&gate] { gate.open(); });
  EXPECT_OK(orFree(memory));
  EXPECT_OK(orStreamQuery(stream));
  opener.join();
}
