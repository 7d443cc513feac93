#include "device/Launch.h"

#include <vector>

#include "device/Error.h"
#include "device/Handles.h"
#include "device/Waiting.h"
#include "device/substitutes/HeldStream.h"

namespace acme::device {
namespace {

struct Task {
  KernelFunction kernel;
  std::vector<std::byte> arguments;
  std::vector<void*> operands;

  // Basalt's memory is locked but while a kernel runs on it.
  static void run(void* opaque) {
    const std::unique_ptr<Task> task(static_cast<Task*>(opaque));
    for (auto* operand : task->operands) {
      DEVICE_WARN(bsUnlock(operand));
    }
    task->kernel(task->arguments.data());
    for (auto* operand : task->operands) {
      DEVICE_WARN(bsLock(operand));
    }
  }
};

}  // namespace

void launchKernel(KernelFunction kernel, const void* arguments, size_t size, StreamHandle stream) {
  launchWithOperands(kernel, arguments, size, {}, stream);
}

void launchWithOperands(
    KernelFunction kernel, const void* arguments, size_t size, std::span<const Operand> operands, StreamHandle stream) {
  const Waiting waiting;
  const auto* bytes = static_cast<const std::byte*>(arguments);
  auto task = std::make_unique<Task>(kernel, std::vector(bytes, bytes + size), std::vector<void*>());
  for (const auto& operand : operands) {
    task->operands.push_back(const_cast<void*>(operand.data));
  }
  DEVICE_CHECK(bsEnqueue(unwrap(stream), &Task::run, task.get()));
  task.release();  // the queue has it now
  streams().submitted(stream);
}

void launchInline(HostFunction function, void* arguments, StreamHandle stream) {
  const Waiting waiting;
  HeldStream::run(function, arguments, stream, [&](HostFunction hold, void* state) {
    DEVICE_CHECK(bsEnqueue(unwrap(stream), hold, state));
    streams().submitted(stream);
  });
}

StreamHandle runningStream() {
  return HeldStream::running();
}

}  // namespace acme::device
