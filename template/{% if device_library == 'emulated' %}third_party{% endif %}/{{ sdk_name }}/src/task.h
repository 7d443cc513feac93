// One entry of a stream's queue.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "completion.h"

namespace emulator {

using Kernel = void (*)(void*);

// The kind of a task. A stream treats only Record, Wait and Turn in a special way.
enum class Kind {
  Kernel,
  HostFunction,
  Copy,
  Fill,
  Graph,  // the completion is that of the whole graph
  Record,  // complete the completion
  Wait,  // continue when the completion is complete
  Turn,  // complete the completion and stop: its waiter owns the stream until it returns it
};

struct Task {
  Task* next = nullptr;
  Kind kind;
  unsigned size = 0;  // of the arguments
  Kernel function = nullptr;
  void* arguments = nullptr;
  CompletionPtr completion;

  explicit Task(Kind kind) : kind(kind) {}

  bool isDeviceWork() const { return kind == Kind::Kernel || kind == Kind::Copy || kind == Kind::Fill; }

  // Work runs a function and needs a worker. Other tasks are quick, and any owner of the stream can do them.
  bool isWork() const { return function != nullptr; }
};

struct TaskDelete {
  void operator()(Task* task) const {
    task->~Task();
    ::operator delete(task);
  }
};
using TaskPtr = std::unique_ptr<Task, TaskDelete>;

// The arguments are copied behind the task, aligned to 16.
inline TaskPtr makeWork(Kind kind, Kernel function, const void* arguments, std::size_t size) {
  constexpr std::size_t kHeader = (sizeof(Task) + 15) / 16 * 16;
  static_assert(__STDCPP_DEFAULT_NEW_ALIGNMENT__ >= 16);
  void* const memory = ::operator new(kHeader + size);
  Task* const task = new (memory) Task(kind);
  task->function = function;
  task->size = static_cast<unsigned>(size);
  task->arguments = static_cast<char*>(memory) + kHeader;
  if (size != 0) {
    std::memcpy(task->arguments, arguments, size);
  }
  return TaskPtr(task);
}

// A host function gets the caller's own pointer.
inline TaskPtr makeHostFunction(Kernel function, void* user) {
  Task* const task = new Task(Kind::HostFunction);
  task->function = function;
  task->arguments = user;
  return TaskPtr(task);
}

inline TaskPtr makeMarker(Kind kind, CompletionPtr completion) {
  Task* const task = new Task(kind);
  task->completion = std::move(completion);
  return TaskPtr(task);
}

}  // namespace emulator
