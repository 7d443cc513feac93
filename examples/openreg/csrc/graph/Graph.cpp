#include "graph/Graph.h"

#include <c10/util/ScopeExit.h>

#include <array>
#include <atomic>
#include <utility>

#include "device/Capabilities.h"
#include "device/Launch.h"
#include "device/Waiting.h"
#include "fallback/CaptureHook.h"
#include "graph/Recorder.h"
#include "runtime/Guard.h"
#include "runtime/memory/CachingAllocator.h"
#include "runtime/memory/HostAllocator.h"

namespace openreg::graph {
namespace {

std::array<std::atomic<Graph*>, 64> capturing_graphs;

[[maybe_unused]] const bool graphs_added = [] {
  setCaptureQuery(&device::isCapturing);
  return device::addCapability("graphs");
}();

device::CaptureMode modeOf(at::GraphCaptureMode mode) {
  switch (mode) {
    case at::GraphCaptureMode::ThreadLocal:
      return device::CaptureMode::ThreadLocal;
    case at::GraphCaptureMode::Relaxed:
      return device::CaptureMode::Relaxed;
    default:
      return device::CaptureMode::Global;
  }
}

// The kernel of a node in the SDK's graph.
void runCall(const RecordedCall* const& call) {
  call->run();
}

}  // namespace

Graph* Graph::capturing(c10::DeviceIndex index) {
  return capturing_graphs.at(index).load(std::memory_order_acquire);
}

Graph::Graph(const at::GraphImplArgs& args) : keep_graph_(args.keep_graph) {
  device::requireCapability("graphs");
}

Graph::~Graph() {
  try {
    if (capturing_) {
      device::destroyGraph(device::endCapture(stream_->handle()));
    }
  } catch (const std::exception& error) {
    TORCH_WARN("a graph was deleted while it was being captured: ", error.what());
  }
  try {
    if (capturing_) {
      abandon();
    }
    reset();
  } catch (const std::exception& error) {
    TORCH_WARN("a graph could not be reset when it was deleted: ", error.what());
  }
}

void Graph::capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode mode) {
  TORCH_CHECK(
      !capturing_ && graph_ == nullptr && exec_ == nullptr,
      "this graph already holds a capture; call reset() first, or create another graph");
  const auto stream = currentStream();
  const auto index = stream.device_index();
  Graph* none = nullptr;
  TORCH_CHECK(
      capturing_graphs.at(index).compare_exchange_strong(none, this), "another graph is being captured on ",
      c10::Device(kDeviceType, index), "; end that capture first");
  auto release = c10::make_scope_exit([index] { capturing_graphs.at(index).store(nullptr, std::memory_order_release); });
  const auto id = pool == c10::MempoolId_t{0, 0} ? newMempoolId() : pool;
  const auto filter = [](c10::Stream used) { return device::isCapturing(Stream(used).handle()); };
  cachingAllocator().beginAllocateToPool(index, id, filter);
  auto end_device_pool = c10::make_scope_exit([index, id] {
    cachingAllocator().endAllocateToPool(index, id);
    cachingAllocator().releasePool(index, id);
  });
  try {
    hostAllocator().begin_allocate_to_pool(id, filter);
  } catch (...) {
    hostAllocator().release_pool(id);  // PyTorch counts a user before it raises the error
    throw;
  }
  auto end_host_pool = c10::make_scope_exit([id] {
    hostAllocator().end_allocate_to_pool(id);
    hostAllocator().release_pool(id);
  });
  fallback::addCaptureHook(record);
  auto pop = c10::make_scope_exit(fallback::removeCaptureHook);
  device::beginCapture(stream.handle(), modeOf(mode));
  pop.release();
  end_host_pool.release();
  end_device_pool.release();
  release.release();
  stream_ = stream;
  pool_ = id;
  capturing_ = true;
}

// Ends everything that capture_begin began, except for the SDK's capture.
void Graph::abandon() noexcept {
  const auto index = stream_->device_index();
  fallback::removeCaptureHook();
  cachingAllocator().endAllocateToPool(index, pool_);
  hostAllocator().end_allocate_to_pool(pool_);
  capturing_graphs.at(index).store(nullptr, std::memory_order_release);
  capturing_ = false;
}

void Graph::capture_end() {
  TORCH_CHECK(capturing_, "no capture to end: call capture_begin() first");
  TORCH_CHECK(currentStream(stream_->device_index()) == *stream_, "a capture must end on the stream that it began on");
  try {
    graph_ = device::endCapture(stream_->handle());
  } catch (...) {
    abandon();
    reset();
    throw;
  }
  abandon();
  if (!keep_graph_) {
    instantiate();
    if (!debug_) {
      device::destroyGraph(std::exchange(graph_, nullptr));
    }
  }
}

void Graph::checkCaptured() const {
  TORCH_CHECK(!capturing_, "this graph is still being captured; call capture_end() first");
  TORCH_CHECK(graph_ != nullptr || exec_ != nullptr, "this graph is empty; capture something first");
}

void Graph::instantiate() {
  checkCaptured();
  TORCH_CHECK(
      graph_ != nullptr, "the graph was instantiated when its capture ended; to instantiate it yourself, create it with keep_graph=True");
  if (exec_ != nullptr) {
    device::destroyGraphExec(std::exchange(exec_, nullptr));
  }
  exec_ = device::instantiateGraph(graph_);
}

void Graph::replay() {
  checkCaptured();
  if (exec_ == nullptr) {
    instantiate();
  }
  const DeviceGuard guard(stream_->device_index());
  const auto stream = currentStream();
  device::launchGraph(exec_, stream.handle());
  replayed_.record(stream);
}

void Graph::reset() {
  TORCH_CHECK(!capturing_, "this graph is being captured; call capture_end() first");
  if (!stream_.has_value()) {
    return;
  }
  replayed_.synchronize();  // the last replay uses the calls
  if (exec_ != nullptr) {
    device::destroyGraphExec(std::exchange(exec_, nullptr));
  }
  if (graph_ != nullptr) {
    device::destroyGraph(std::exchange(graph_, nullptr));
  }
  calls_.clear();
  cachingAllocator().releasePool(stream_->device_index(), pool_);
  hostAllocator().release_pool(pool_);
  stream_.reset();
}

c10::MempoolId_t Graph::pool() const {
  TORCH_CHECK(stream_.has_value(), "this graph has no memory pool, because nothing was captured");
  return pool_;
}

void Graph::enable_debug_mode() {
  debug_ = true;
}

void Graph::debug_dump(const std::string& path) {
  checkCaptured();
  TORCH_CHECK(
      graph_ != nullptr,
      "the graph was not kept for a dump: call enable_debug_mode() before the capture, or create it with keep_graph=True");
  device::dumpGraph(graph_, path);
}

void Graph::add(std::unique_ptr<RecordedCall> call, device::StreamHandle stream) {
  if constexpr (device::kKernelsAreHostFunctions) {
    const RecordedCall* const address = call.get();
    const auto guard = device::lockMutex(mutex_);
    calls_.push_back(std::move(call));
    device::launch<const RecordedCall*, &runCall>(address, stream);
  } else {
    TORCH_CHECK_NOT_IMPLEMENTED(
        false, "a graph of ", c10::get_privateuse1_backend(), " devices cannot contain an operator that PyTorch's CPU kernel computes");
  }
}

}  // namespace openreg::graph

namespace at {

// Not REGISTER_GRAPH_IMPL, because that macro would expand a name that is itself a macro, such as EOF.
C10_REGISTER_TYPED_CLASS(GraphImplRegistry, "OPENREG", ::openreg::graph::Graph)

}  // namespace at
