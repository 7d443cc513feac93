#include "launch_log.h"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "completion.h"
#include "device.h"

namespace emulator {
namespace {

// Never destroyed, because launches can happen while the process exits.
struct Log {
  std::mutex mutex;
  std::FILE* file = nullptr;
  std::int64_t start = 0;

  void close() {
    if (file != nullptr && file != stderr) {
      std::fclose(file);
    }
    file = nullptr;
  }
};
Log& log() {
  static auto* const instance = new Log;
  return *instance;
}

}  // namespace

Status openLaunchLog(const char* path) {
  const std::lock_guard lock(log().mutex);
  std::FILE* file = nullptr;
  if (path != nullptr) {
    file = std::strcmp(path, "stderr") == 0 ? stderr : std::fopen(path, "w");
    if (file == nullptr) {
      return fail(Status::InvalidValue, "cannot write the launch log '%.200s': %s", path, std::strerror(errno));
    }
  }
  log().close();
  log().file = file;
  log().start = now();
  diagnosis::turn(diagnosis::kLog, file != nullptr);
  return Status::Success;
}

void writeLaunchLog(const Stream& stream, const char* kind, const char* format, ...) {
  char details[256];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(details, sizeof(details), format, arguments);
  va_end(arguments);
  const std::lock_guard lock(log().mutex);
  if (log().file != nullptr) {
    const double seconds = static_cast<double>(now() - log().start) * 1e-9;
    std::fprintf(
        log().file, "%14.9f device=%d stream=%#zx %s %s%s\n", seconds, stream.device().index, static_cast<std::size_t>(stream.handle()),
        kind, details, stream.capturing() ? " (captured)" : "");
    std::fflush(log().file);
  }
}

}  // namespace emulator
