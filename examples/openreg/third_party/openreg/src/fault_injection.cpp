#include "fault_injection.h"

#include <algorithm>
#include <charconv>
#include <mutex>
#include <vector>

#include "diagnosis.h"
#include "settings.h"

namespace emulator {
namespace {

struct Function {
  std::string_view name;
  Status failure;
};

constexpr Function kFunctions[] = {
    {"orGetDeviceCount", Status::Unknown},
    {"orGetDevice", Status::Unknown},
    {"orSetDevice", Status::Unknown},
    {"orDeviceSynchronize", Status::LaunchFailure},
    {"orGetDeviceProperties", Status::Unknown},
    {"orDeviceGetStreamPriorityRange", Status::Unknown},
    {"orDeviceCanAccessPeer", Status::Unknown},
    {"orRuntimeGetVersion", Status::Unknown},
    {"orDeviceReset", Status::Unknown},
    {"orMalloc", Status::MemoryAllocation},
    {"orFree", Status::Unknown},
    {"orMallocHost", Status::MemoryAllocation},
    {"orFreeHost", Status::Unknown},
    {"orMemGetInfo", Status::Unknown},
    {"orMemcpy", Status::Unknown},
    {"orMemcpyAsync", Status::Unknown},
    {"orMemset", Status::Unknown},
    {"orMemsetAsync", Status::Unknown},
    {"orPointerGetAttributes", Status::Unknown},
    {"orGetKernelAddressOffset", Status::Unknown},
    {"orIpcGetMemHandle", Status::Unknown},
    {"orIpcOpenMemHandle", Status::Unknown},
    {"orIpcCloseMemHandle", Status::Unknown},
    {"orIpcGetEventHandle", Status::Unknown},
    {"orIpcOpenEventHandle", Status::Unknown},
    {"orStreamCreate", Status::Unknown},
    {"orStreamCreateWithPriority", Status::Unknown},
    {"orStreamDestroy", Status::Unknown},
    {"orStreamQuery", Status::LaunchFailure},
    {"orStreamSynchronize", Status::LaunchFailure},
    {"orStreamWaitEvent", Status::Unknown},
    {"orStreamGetPriority", Status::Unknown},
    {"orStreamGetDevice", Status::Unknown},
    {"orStreamBeginCapture", Status::Unknown},
    {"orStreamEndCapture", Status::Unknown},
    {"orStreamGetCaptureStatus", Status::Unknown},
    {"orEventCreate", Status::Unknown},
    {"orEventCreateWithFlags", Status::Unknown},
    {"orEventDestroy", Status::Unknown},
    {"orEventRecord", Status::Unknown},
    {"orEventSynchronize", Status::Unknown},
    {"orEventQuery", Status::Unknown},
    {"orEventElapsedTime", Status::Unknown},
    {"orLaunchKernel", Status::LaunchFailure},
    {"orLaunchKernelInline", Status::LaunchFailure},
    {"orLaunchHostFunc", Status::LaunchFailure},
    {"orGraphInstantiate", Status::Unknown},
    {"orGraphLaunch", Status::LaunchFailure},
    {"orGraphDestroy", Status::Unknown},
    {"orGraphExecDestroy", Status::Unknown},
    {"orGraphGetNodeCount", Status::Unknown},
    {"orGraphDebugDump", Status::Unknown},
    {"orSetKernelDelay", Status::Unknown},
    {"orSetStickyErrors", Status::Unknown},
    {"orSetLaunchLog", Status::Unknown},
    {"orDeviceFail", Status::Unknown},
};

struct Plan {
  std::string_view function;  // from the table
  unsigned nth;
  unsigned calls;
  Status failure;
};

// Never destroyed, because calls are counted while the process exits.
struct Plans {
  std::mutex mutex;
  std::vector<Plan> list;
};
Plans& plans() {
  static auto* const instance = new Plans;
  return *instance;
}

const Function* findFunction(std::string_view name) {
  const auto found =
      std::find_if(std::begin(kFunctions), std::end(kFunctions), [&](const Function& function) { return function.name == name; });
  return found != std::end(kFunctions) ? found : nullptr;
}

// With the lock held.
void add(std::vector<Plan>& list, const Function& function, unsigned nth, Status failure) {
  std::erase_if(list, [&](const Plan& plan) { return plan.function == function.name; });
  if (nth != 0) {
    list.push_back({function.name, nth, 0, failure != Status::Success ? failure : function.failure});
  }
  diagnosis::turn(diagnosis::kFailures, !list.empty());
}

}  // namespace

Status injectFailure(std::string_view name, unsigned nth, Status failure) {
  settings();  // applies the environment, whose plans count from the first call
  const Function* const function = findFunction(name);
  if (function == nullptr) {
    return fail(
        Status::InvalidValue, "'%.*s' is no function of this library that can fail; give the name as in its header",
        static_cast<int>(std::min<std::size_t>(name.size(), 64)), name.data());
  }
  const std::lock_guard lock(plans().mutex);
  add(plans().list, *function, nth, failure);
  return Status::Success;
}

std::string injectFailures(std::string_view list) {
  const std::lock_guard lock(plans().mutex);
  std::string wrong;
  while (!list.empty()) {
    const std::string_view entry = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), entry.size() + 1));
    const std::size_t colon = std::min(entry.find(':'), entry.size());
    const Function* const function = findFunction(entry.substr(0, colon));
    const std::string_view number = entry.substr(std::min(entry.size(), colon + 1));
    unsigned nth = 0;
    const auto [end, code] = std::from_chars(number.data(), number.data() + number.size(), nth);
    if (function == nullptr) {
      wrong = std::string(entry.substr(0, colon)) + " is no function of this library that can fail";
    } else if (code != std::errc{} || end != number.data() + number.size() || nth == 0) {
      wrong = std::string(entry) + " does not say which call is meant";
    } else {
      add(plans().list, *function, nth, Status::Success);
    }
  }
  diagnosis::turn(diagnosis::kFailures, !plans().list.empty());
  return wrong;
}

Status countCall(const char* function) {
  settings();
  const std::lock_guard lock(plans().mutex);
  std::vector<Plan>& list = plans().list;
  const auto plan = std::find_if(list.begin(), list.end(), [&](const Plan& candidate) { return candidate.function == function; });
  if (plan == list.end() || ++plan->calls < plan->nth) {
    return Status::Success;
  }
  const Status status =
      fail(plan->failure, "this failure was injected, as call %u of the function; it is no fault of the program", plan->nth);
  list.erase(plan);
  diagnosis::turn(diagnosis::kFailures, !list.empty());
  return status;
}

}  // namespace emulator
