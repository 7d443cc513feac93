#include "fallback/MemoryScope.h"

#include <c10/core/CPUAllocator.h>

#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "device/Address.h"
#include "device/Memory.h"
#include "runtime/memory/CachingAllocator.h"

namespace openreg::fallback {
namespace {

thread_local constinit DeviceMemoryScope* current_scope = nullptr;

// Memory that outlives its scope. This is rare: the cache of a kernel, or scratch memory that another thread frees.
struct Escaped {
  std::mutex mutex;
  std::unordered_map<const void*, Block*> blocks;
  std::unordered_set<const void*> freed_early;  // by another thread, while the scope was still alive

  static Escaped& instance() {
    static auto& escaped = *new Escaped;
    return escaped;
  }
};

Block* takeFromScopes(const void* address) {
  for (auto* scope = current_scope; scope != nullptr; scope = scope->outer()) {
    if (auto* block = scope->take(address)) {
      return block;
    }
  }
  return nullptr;
}

// The context of scoped memory is its address, because PyTorch's raw_allocate requires this of every CPU allocator.
void deleteScoped(void* address) {
  if (auto* block = takeFromScopes(address)) [[likely]] {
    CachingAllocator::deleteBlock(block);
    return;
  }
  auto& escaped = Escaped::instance();
  const std::lock_guard<std::mutex> guard(escaped.mutex);
  if (const auto found = escaped.blocks.find(address); found != escaped.blocks.end()) {
    CachingAllocator::deleteBlock(found->second);
    escaped.blocks.erase(found);
  } else {
    escaped.freed_early.insert(address);
  }
}

class RedirectingCpuAllocator final : public c10::Allocator {
 public:
  explicit RedirectingCpuAllocator(c10::Allocator* host) : host_(host), host_deleter_(host->raw_deleter()) {}

  c10::DataPtr allocate(size_t nbytes) override {
    if (current_scope == nullptr || nbytes == 0) [[likely]] {
      return host_->allocate(nbytes);
    }
    return current_scope->allocate(nbytes);
  }

  // Frees memory of both kinds, because memory from raw_allocate within a scope may be freed outside of it, and vice versa.
  c10::DeleterFnPtr raw_deleter() const override {
    return [](void* pointer) {
      const bool scoped = device::hasKernelAddresses() && isInitialized() &&
                          device::pointerInfo(device::toDeviceAddress(pointer)).type == device::MemoryType::Device;
      scoped ? deleteScoped(pointer) : instance().host_deleter_(pointer);
    };
  }

  bool is_simple_data_ptr(const c10::DataPtr& data) const override {
    return data.get_deleter() != &deleteScoped && host_->is_simple_data_ptr(data);
  }

  void copy_data(void* dest, const void* src, size_t count) const override {
    host_->copy_data(dest, src, count);
  }

  static RedirectingCpuAllocator& instance() {
    static auto& allocator = *new RedirectingCpuAllocator(c10::GetCPUAllocator());
    return allocator;
  }

 private:
  c10::Allocator* host_;
  c10::DeleterFnPtr host_deleter_;
};

const bool cpu_allocator_registered = [] {
  c10::SetCPUAllocator(&RedirectingCpuAllocator::instance());
  return true;
}();

}  // namespace

DeviceMemoryScope::DeviceMemoryScope(c10::DeviceIndex device)
    : device_(device), outer_(std::exchange(current_scope, this)), excluded_(kAboveKernels) {}

DeviceMemoryScope::~DeviceMemoryScope() {
  current_scope = outer_;
  for (const auto& [address, block] : allocated_) {
    auto& escaped = Escaped::instance();
    const std::lock_guard<std::mutex> guard(escaped.mutex);
    if (escaped.freed_early.erase(address) == 1) {
      CachingAllocator::deleteBlock(block);
    } else {
      escaped.blocks.emplace(address, block);
    }
  }
}

HostMemoryScope::HostMemoryScope(c10::DispatchKeySet excluded) : outer_(std::exchange(current_scope, nullptr)), excluded_(excluded) {}

HostMemoryScope::~HostMemoryScope() {
  current_scope = outer_;
}

c10::DataPtr DeviceMemoryScope::allocate(size_t nbytes) {
  auto* block = cachingAllocator().allocateBlock(device_, nbytes);
  auto* address = device::toKernelAddress(CachingAllocator::blockAddress(block));
  allocated_.emplace_back(address, block);
  return {address, address, &deleteScoped, c10::Device(c10::kCPU)};
}

Block* DeviceMemoryScope::take(const void* address) {
  for (auto& entry : allocated_) {
    if (entry.first == address) {
      auto* block = entry.second;
      entry = allocated_.back();
      allocated_.pop_back();
      return block;
    }
  }
  return nullptr;
}

c10::Allocator& cpuAllocator() {
  return RedirectingCpuAllocator::instance();
}

bool retag(c10::DataPtr& data, c10::DeviceIndex device) {
  if (data.get_deleter() != &deleteScoped) {
    return false;
  }
  auto* block = takeFromScopes(data.get());
  if (block == nullptr) {
    auto& escaped = Escaped::instance();
    const std::lock_guard<std::mutex> guard(escaped.mutex);
    const auto found = escaped.blocks.find(data.get());
    TORCH_INTERNAL_ASSERT(found != escaped.blocks.end());
    block = found->second;
    escaped.blocks.erase(found);
  }
  data.release_context();
  data = c10::DataPtr(CachingAllocator::blockAddress(block), block, &CachingAllocator::deleteBlock, c10::Device(kDeviceType, device));
  return true;
}

}  // namespace openreg::fallback
