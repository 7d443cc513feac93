#include "graph.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include "runtime.h"
#include "work.h"

namespace emulator {
namespace {

// One launch of a graph, complete when the last node is.
class GraphRun : public Completion {
 public:
  GraphRun(const Stream& stream, std::shared_ptr<const Graph> graph) : Completion(&stream), graph_(std::move(graph)) {}
  static void run(void* self) { static_cast<const GraphRun*>(self)->graph_->run(); }

 private:
  const std::shared_ptr<const Graph> graph_;
};

bool isQuick(const Task& task) {
  switch (task.kind) {
    case Kind::HostFunction:
      return false;
    case Kind::Copy:
      return static_cast<const CopyWork*>(task.arguments)->size < kWorthQueueing;
    case Kind::Fill:
      return static_cast<const FillWork*>(task.arguments)->size < kWorthQueueing;
    default:
      return true;
  }
}

std::uint64_t deviceBit(const void* kernel_address) {
  Runtime& runtime = *Runtime::get();
  const auto address = reinterpret_cast<std::uintptr_t>(kernel_address) - static_cast<std::uintptr_t>(runtime.space.kernelOffset());
  return runtime.space.contains(address) ? std::uint64_t{1} << runtime.space.deviceOf(address) : 0;
}

std::uint64_t devicesOf(const GraphNode& node) {
  std::uint64_t devices = std::uint64_t{1} << node.device;
  if (node.work->kind == Kind::Copy) {
    const auto& work = *static_cast<const CopyWork*>(node.work->arguments);
    devices |= deviceBit(work.source) | deviceBit(work.destination);
  } else if (node.work->kind == Kind::Fill) {
    devices |= deviceBit(static_cast<const FillWork*>(node.work->arguments)->destination);
  }
  return devices;
}

std::string text(const char* format, std::size_t number) {
  char buffer[96];
  std::snprintf(buffer, sizeof(buffer), format, number);
  return buffer;
}

// The device address that the caller passed, not the kernel address.
std::string addressText(const void* address) {
  auto value = reinterpret_cast<std::uintptr_t>(address);
  const AddressSpace& space = Runtime::get()->space;
  if (space.containsKernel(value)) {
    value -= static_cast<std::uintptr_t>(space.kernelOffset());
  }
  return text("%#zx", value);
}

std::string describe(const Task& task) {
  switch (task.kind) {
    case Kind::Copy: {
      const auto& work = *static_cast<const CopyWork*>(task.arguments);
      return "copy\\n" + text("%zu bytes", work.size) + "\\nfrom " + addressText(work.source) + "\\nto " + addressText(work.destination);
    }
    case Kind::Fill: {
      const auto& work = *static_cast<const FillWork*>(task.arguments);
      return "fill\\n" + text("%zu bytes", work.size) + "\\nat " + addressText(work.destination) +
             text("\\nwith %#zx", static_cast<unsigned char>(work.value));
    }
    case Kind::HostFunction:
      return "host function\\n" + text("%#zx", reinterpret_cast<std::uintptr_t>(task.function)) + "\\nuser " + addressText(task.arguments);
    default:
      return "kernel\\n" + text("%#zx", reinterpret_cast<std::uintptr_t>(task.function)) + text("\\n%zu bytes of arguments", task.size);
  }
}

}  // namespace

std::size_t Graph::add(GraphNode node) {
  may_run_at_once_ = may_run_at_once_ && isQuick(*node.work);
  devices_ |= devicesOf(node);
  nodes_.push_back(std::move(node));
  return nodes_.size() - 1;
}

Status Graph::checkDevices() const {
  if (diagnosis::on(diagnosis::kLost)) [[unlikely]] {
    Runtime& runtime = *Runtime::get();
    for (int device = 0; device < runtime.deviceCount(); ++device) {
      if (const Status status = uses(device) ? runtime.device(device).check() : Status::Success; status != Status::Success) {
        return status;
      }
    }
  }
  return Status::Success;
}

bool Graph::allBefore(const std::vector<std::size_t>& ends) const {
  std::vector<bool> reached(nodes_.size());
  for (const std::size_t end : ends) {
    reached[end] = true;
  }
  for (std::size_t index = nodes_.size(); index-- > 0;) {
    if (!reached[index]) {
      return false;
    }
    for (const std::size_t before : nodes_[index].after) {
      reached[before] = true;
    }
  }
  return true;
}

void Graph::run() const {
  struct Restore {
    ThreadState& thread = thisThread();
    const int device = thread.device;
    ~Restore() { thread.device = device; }
  } const restore;
  for (const GraphNode& node : nodes_) {
    restore.thread.device = node.device;
    if (diagnosis::on(diagnosis::kDelay) && node.work->isDeviceWork()) [[unlikely]] {
      diagnosis::delay();
    }
    try {
      node.work->function(node.work->arguments);
    } catch (const std::exception& error) {
      throw std::runtime_error("node " + std::to_string(&node - nodes_.data()) + " of the graph: " + error.what());
    }
  }
}

Status Graph::dump(const char* path) const {
  std::string out = "digraph graph_capture {\n  node [shape=box];\n";
  for (std::size_t index = 0; index < nodes_.size(); ++index) {
    const GraphNode& node = nodes_[index];
    out += text("  n%zu [label=\"", index) + text("%zu: ", index) + describe(*node.work);
    out += node.stream == 0 ? std::string("\\ndefault stream") : text("\\nstream %#zx", node.stream);
    out += text(", device %zu\"];\n", static_cast<std::size_t>(node.device));
    for (const std::size_t before : node.after) {
      out += text("  n%zu -> ", before) + text("n%zu;\n", index);
    }
  }
  out += "}\n";
  std::FILE* const file = std::fopen(path, "w");
  const bool written = file != nullptr && std::fwrite(out.data(), 1, out.size(), file) == out.size();
  int error = errno;
  if (file != nullptr && std::fclose(file) != 0 && written) {
    error = errno;
  } else if (written) {
    return Status::Success;
  }
  return fail(Status::InvalidValue, "cannot write the file '%.200s': %s", path, std::strerror(error));
}

void GraphSlot::open(std::shared_ptr<const Graph> graph) {
  const std::lock_guard lock(mutex_);
  graph_ = std::move(graph);
}

void GraphSlot::close() {
  open(nullptr);
}

std::shared_ptr<const Graph> GraphSlot::get() {
  const std::lock_guard lock(mutex_);
  return graph_;
}

void GraphExec::open(std::shared_ptr<const Graph> graph) {
  const std::lock_guard lock(mutex_);
  graph_ = std::move(graph);
  latest_.reset();
}

void GraphExec::close() {
  open(nullptr);
}

std::shared_ptr<const Graph> GraphExec::get() {
  const std::lock_guard lock(mutex_);
  return graph_;
}

Status GraphExec::launch(ThreadState& thread, Stream& stream, bool at_once) {
  // Completes even if the thread is ended inside a node.
  struct Finish {
    Completion& run;
    ~Finish() { run.complete(); }
  };
  std::unique_lock lock(mutex_);
  if (graph_ == nullptr) {
    return fail(Status::InvalidHandle, "the executable graph was destroyed meanwhile");
  }
  if (const Status status = graph_->checkDevices(); status != Status::Success) {
    return status;
  }
  const bool nested = stream.heldBy(thread);
  const CompletionPtr before = latest_ != nullptr && !latest_->done() ? latest_ : nullptr;
  if (nested && before != nullptr) {
    return fail(Status::NotSupported, "a kernel cannot launch a graph that is running, since it would have to wait for its end");
  }
  const auto run = std::make_shared<GraphRun>(stream, graph_);
  if (nested || (at_once && before == nullptr && graph_->mayRunAtOnce() && stream.tryTake())) {
    latest_ = run;
    lock.unlock();
    const Finish finish{*run};
    return nested ? invoke(&GraphRun::run, run.get()) : stream.runOwned(thread, &GraphRun::run, run.get());
  }
  TaskPtr task = makeMarker(Kind::Graph, run);
  task->function = &GraphRun::run;
  task->arguments = run.get();
  // With the lock held. Otherwise a stream could wait for a launch that is submitted to it only later.
  if (before != nullptr) {
    stream.enqueue(makeMarker(Kind::Wait, before));
  }
  latest_ = run;
  stream.enqueue(std::move(task));
  return Status::Success;
}

}  // namespace emulator
