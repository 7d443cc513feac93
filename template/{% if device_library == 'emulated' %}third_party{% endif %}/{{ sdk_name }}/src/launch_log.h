// The launch log: one line for each submission to the device.
#pragma once

#include "diagnosis.h"
#include "status.h"

namespace emulator {

class Stream;

// Null: ends the log. "stderr": the standard error output. Else a file, which is overwritten.
Status openLaunchLog(const char* path);

[[gnu::format(printf, 3, 4)]] void writeLaunchLog(const Stream& stream, const char* kind, const char* format, ...);

// Without a log it costs almost nothing: the arguments are not evaluated.
#define EMULATOR_LOG(stream, kind, ...) \
  do { \
    if (::emulator::diagnosis::on(::emulator::diagnosis::kLog)) [[unlikely]] { \
      ::emulator::writeLaunchLog(stream, kind, __VA_ARGS__); \
    } \
  } while (false)

}  // namespace emulator
