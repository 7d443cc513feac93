#include "fallback/OperatorOrigin.h"

#include <filesystem>
#include <mutex>
#include <unordered_map>

namespace openreg::fallback {
namespace {

// The dispatcher keeps a text with each kernel, for its error messages and dumps. The text of a kernel with an origin is made here, so it
// identifies the kernel.
struct Origins {
  std::mutex mutex;
  std::unordered_map<std::string, OperatorOrigin> by_text;
};

Origins& origins() {
  static auto& instance = *new Origins;  // never destroyed: kernels are registered and looked up at any time
  return instance;
}

// "Abs.cpp:41" of "registered at /some/where/Abs.cpp:41".
std::string shortened(const std::string& text) {
  return std::filesystem::path(text).filename().string();
}

}  // namespace

torch::CppFunction attachOrigin(OperatorOrigin origin, torch::CppFunction kernel, const std::source_location& where) {
  auto text = c10::str("registered at ", where.file_name(), ":", where.line(), ", ", origin.reason);
  {
    const std::lock_guard<std::mutex> guard(origins().mutex);
    origins().by_text.insert_or_assign(text, std::move(origin));
  }
  return std::move(kernel).debug(std::move(text));
}

OperatorOrigin originOf(const c10::OperatorHandle& op, c10::DispatchKey key) {
  // The dispatcher notes with the kernel who asked for it, without a lock, and keeps the note (some 50 bytes) as long as the kernel.
  const std::lock_guard<std::mutex> guard(origins().mutex);
  const auto text = op.getComputedKernelForDispatchKey(key).debug();
  const auto found = origins().by_text.find(text);
  return found != origins().by_text.end() ? found->second : OperatorOrigin{Origin::Native, "registered at " + shortened(text)};
}

}  // namespace openreg::fallback
