// One line for each submission, for whoever wants to know what a program gives to the device.
#pragma once

#include "diagnosis.h"
#include "status.h"

namespace emulator {

class Stream;

// Null: no log any more. "stderr": the standard error output. Else a file, which is overwritten.
Status openLaunchLog(const char* path);

[[gnu::format(printf, 3, 4)]] void writeLaunchLog(const Stream& stream, const char* kind, const char* format, ...);

// Next to nothing if there is no log. The arguments are not evaluated then.
#define EMULATOR_LOG(stream, kind, ...) \
  do { \
    if (::emulator::diagnosis::on(::emulator::diagnosis::kLog)) [[unlikely]] { \
      ::emulator::writeLaunchLog(stream, kind, __VA_ARGS__); \
    } \
  } while (false)

}  // namespace emulator
