#include "settings.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string_view>

#include "fault_injection.h"

namespace emulator {
namespace {

// The build system defines EMULATOR_ENV_PREFIX, EMULATOR_NUM_DEVICES and EMULATOR_DEVICE_MEMORY (strings).
struct Variable {
  const char* name;
  std::string_view value;
};

Variable variable(const char* name, const char* fallback) {
  const char* value = std::getenv(name);
  return {name, value != nullptr ? value : fallback};
}

std::string complain(const Variable& variable, const char* expected) {
  return std::string("the environment variable ") + variable.name + " is '" + std::string(variable.value.substr(0, 64)) + "'; set it to " +
         expected + ", or unset it";
}

// Length of the number at the start of the text, 0 if there is none or it does not fit.
template <class Number>
std::size_t parseNumber(std::string_view text, Number& number) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  return code == std::errc{} ? static_cast<std::size_t>(end - text.data()) : 0;
}

bool parseCount(std::string_view text, int& count) {
  return parseNumber(text, count) == text.size() && !text.empty() && count >= 0 && count <= kMaxDevices;
}

bool parseBytes(std::string_view text, std::size_t& bytes) {
  const std::size_t digits = parseNumber(text, bytes);
  if (digits == 0 || text.size() > digits + 1) {
    return false;
  }
  if (text.size() == digits) {
    return true;
  }
  const char* const suffixes = "KMGT";
  const char* suffix = std::strchr(suffixes, text[digits] & ~0x20);
  if (suffix == nullptr || *suffix == '\0') {
    return false;
  }
  const unsigned shift = 10 * static_cast<unsigned>(suffix - suffixes + 1);
  if (bytes > (std::numeric_limits<std::size_t>::max() >> shift)) {
    return false;
  }
  bytes <<= shift;
  return true;
}

bool parseLaunchMode(std::string_view text, LaunchMode& mode) {
  if (text == "inline") {
    mode = LaunchMode::Inline;
  } else if (text == "async") {
    mode = LaunchMode::Async;
  } else if (text == "blocking") {
    mode = LaunchMode::Blocking;
  } else {
    return false;
  }
  return true;
}

bool parseDelay(std::string_view text, unsigned& microseconds) {
  return parseNumber(text, microseconds) == text.size() && !text.empty() && microseconds <= kMaxDelay;
}

bool parseSwitch(std::string_view text, bool& on) {
  on = text == "1";
  return on || text == "0";
}

Settings read() {
  constexpr std::size_t kMinMemory = std::size_t{1} << 20;
  constexpr std::size_t kMaxMemory = std::size_t{1} << 40;
  Settings result;
  const Variable count = variable(EMULATOR_ENV_PREFIX "NUM_DEVICES", EMULATOR_NUM_DEVICES);
  const Variable memory = variable(EMULATOR_ENV_PREFIX "DEVICE_MEMORY", EMULATOR_DEVICE_MEMORY);
  const Variable launch = variable(EMULATOR_ENV_PREFIX "LAUNCH", "inline");
  const Variable delay = variable(EMULATOR_ENV_PREFIX "DELAY_US", "0");
  const Variable failures = variable(EMULATOR_ENV_PREFIX "FAIL", "");
  const Variable sticky = variable(EMULATOR_ENV_PREFIX "STICKY_ERRORS", "0");
  const Variable log = variable(EMULATOR_ENV_PREFIX "LOG", "");
  if (!parseCount(count.value, result.device_count)) {
    result.error = complain(count, "a number of devices from 0 to 64");
  } else if (!parseBytes(memory.value, result.device_memory) || result.device_memory < kMinMemory || result.device_memory > kMaxMemory) {
    result.error = complain(memory, "the memory of a device from 1M to 1T, in bytes or with the suffix K, M, G or T");
  } else if (!parseLaunchMode(launch.value, result.launch_mode)) {
    result.error = complain(launch, "inline, async or blocking");
  } else if (!parseDelay(delay.value, result.delay)) {
    result.error = complain(delay, "a number of microseconds up to 10000000");
  } else if (!parseSwitch(sticky.value, result.sticky_errors)) {
    result.error = complain(sticky, "0 or 1");
  }
  result.launch_log = log.value;
  if (const std::string wrong = injectFailures(failures.value); result.error.empty() && !wrong.empty()) {
    result.error = complain(failures, "a list of function:nth, separated by commas") + "; " + wrong;
  }
  return result;
}

}  // namespace

const Settings& settings() {
  // Never destroyed, so that it can be read while the process exits.
  static const Settings* const instance = new Settings(read());
  return *instance;
}

}  // namespace emulator
