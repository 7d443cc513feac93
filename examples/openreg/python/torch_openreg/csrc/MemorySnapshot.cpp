#include "MemorySnapshot.h"

#include <pybind11/stl.h>

#include <unordered_map>

#include <c10/core/AllocatorConfig.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include "Call.h"
#include "runtime/memory/CachingAllocator.h"
#include "runtime/memory/MemoryHistory.h"

namespace py = pybind11;

namespace openreg {
namespace {

using c10::CachingAllocator::AcceleratorAllocatorConfig;
using c10::CachingDeviceAllocator::SegmentInfo;

template <bool kCpp>
Context gather() {
  return torch::CapturedTraceback::gather(/*python=*/true, /*script=*/true, kCpp);
}

RecordContext contextsFromName(const std::optional<std::string>& name) {
  if (!name) {
    return RecordContext::NEVER;
  }
  if (*name == "state") {
    return RecordContext::STATE;
  }
  if (*name == "alloc") {
    return RecordContext::ALLOC;
  }
  TORCH_CHECK_VALUE(*name == "all", "unknown context '", *name, "': choose None, 'state', 'alloc' or 'all'");
  return RecordContext::ALL;
}

void startMemoryHistory(
    const std::optional<std::string>& contexts, const std::string& stacks, size_t max_entries, bool clear,
    const std::vector<std::string>& skipped) {
  TORCH_CHECK_VALUE(stacks == "python" || stacks == "all", "unknown stacks '", stacks, "': choose 'python' or 'all'");
  HistoryOptions options;
  options.max_entries = max_entries;
  options.contexts = contextsFromName(contexts);
  options.gather = stacks == "all" ? &gather<true> : &gather<false>;
  options.clear = clear;
  for (const auto& action : skipped) {
    options.skipped.insert(c10::CachingDeviceAllocator::parseTraceEntryAction(action));
  }
  cachingAllocator().startHistory(options);
}

// Lists of frames for the contexts of a snapshot. Entries with the same context share one list, which is symbolized once.
class Frames {
 public:
  void add(const Context& context) {
    if (context && indices_.try_emplace(context.get(), tracebacks_.size()).second) {
      tracebacks_.push_back(torch::getCapturedTracebackFromContext(context));
    }
  }

  void symbolize() {
    const auto symbolized = torch::symbolize(tracebacks_);
    std::vector<py::dict> frames;
    for (const auto& frame : symbolized.all_frames) {
      py::dict entry;
      entry["filename"] = frame.filename;
      entry["name"] = frame.funcname;
      entry["line"] = frame.lineno;
      frames.push_back(std::move(entry));
    }
    for (const auto& traceback : symbolized.tracebacks) {
      py::list list;
      for (const auto index : traceback) {
        list.append(frames.at(index));
      }
      lists_.push_back(std::move(list));
    }
  }

  py::list of(const Context& context) const {
    return context ? lists_.at(indices_.at(context.get())) : py::list();
  }

 private:
  std::unordered_map<c10::GatheredContext*, size_t> indices_;
  std::vector<torch::CapturedTraceback*> tracebacks_;
  std::vector<py::list> lists_;
};

py::dict segmentDict(const SegmentInfo& segment, const Frames& frames) {
  py::dict result;
  result["device"] = static_cast<int>(segment.device);
  result["address"] = segment.address;
  result["total_size"] = segment.total_size;
  result["allocated_size"] = segment.allocated_size;
  result["active_size"] = segment.active_size;
  result["requested_size"] = segment.requested_size;
  result["stream"] = reinterpret_cast<size_t>(segment.stream);
  result["segment_type"] = segment.is_large ? "large" : "small";
  result["segment_pool_id"] = segment.owner_private_pool_id;
  result["is_expandable"] = segment.is_expandable;
  result["frames"] = frames.of(segment.context_when_allocated);
  py::list blocks;
  size_t address = segment.address;
  for (const auto& block : segment.blocks) {
    py::dict entry;
    entry["address"] = address;
    entry["size"] = block.size;
    entry["requested_size"] = block.requested_size;
    entry["state"] = block.allocated ? "active_allocated" : block.active ? "active_awaiting_free"
                                                                         : "inactive";
    entry["frames"] = frames.of(block.context_when_allocated);
    blocks.append(std::move(entry));
    address += block.size;
  }
  result["blocks"] = std::move(blocks);
  return result;
}

const char* nameOf(TraceEntry::Action action) {
  switch (action) {
    case TraceEntry::ALLOC:
      return "alloc";
    case TraceEntry::FREE_REQUESTED:
      return "free_requested";
    case TraceEntry::FREE_COMPLETED:
      return "free_completed";
    case TraceEntry::SEGMENT_ALLOC:
      return "segment_alloc";
    case TraceEntry::SEGMENT_FREE:
      return "segment_free";
    case TraceEntry::SEGMENT_MAP:
      return "segment_map";
    case TraceEntry::SEGMENT_UNMAP:
      return "segment_unmap";
    case TraceEntry::SNAPSHOT:
      return "snapshot";
    case TraceEntry::OOM:
      return "oom";
    default:  // later releases of torch have more actions, which this allocator does not record
      break;
  }
  TORCH_INTERNAL_ASSERT(false, "an action of the allocator has no name");
}

py::dict traceDict(const TraceEntry& entry, const Frames& frames) {
  py::dict result;
  result["action"] = nameOf(entry.action_);
  result[entry.action_ == TraceEntry::OOM ? "device_free" : "addr"] = entry.addr_;
  result["size"] = entry.size_;
  result["stream"] = reinterpret_cast<size_t>(entry.stream_);
  result["pool_id"] = entry.mempool_;
  result["time_us"] = entry.time_.t_ / 1000;
  result["frames"] = frames.of(entry.context_);
  return result;
}

py::dict settingsDict() {
  py::dict result;
  result["PYTORCH_ALLOC_CONF"] = AcceleratorAllocatorConfig::last_allocator_settings();
  result["max_split_size"] = static_cast<int64_t>(AcceleratorAllocatorConfig::max_split_size());
  result["garbage_collection_threshold"] = AcceleratorAllocatorConfig::garbage_collection_threshold();
  result["expandable_segments"] = false;
  py::dict roundup;
  const auto& divisions = AcceleratorAllocatorConfig::roundup_power2_divisions();
  for (size_t i = 0; i < divisions.size(); ++i) {
    roundup[py::int_(size_t{1} << i)] = divisions[i];  // by size in MiB
  }
  result["roundup_power2_divisions"] = std::move(roundup);
  return result;
}

py::dict memorySnapshot() {
  MemorySnapshot snapshot;
  {
    // Another thread may hold the allocator's lock while it waits for the GIL.
    const py::gil_scoped_release no_gil;
    snapshot = cachingAllocator().snapshot();
  }
  Frames frames;
  for (const auto& segment : snapshot.segments) {
    frames.add(segment.context_when_allocated);
    for (const auto& block : segment.blocks) {
      frames.add(block.context_when_allocated);
    }
  }
  for (const auto& trace : snapshot.traces) {
    for (const auto& entry : trace) {
      frames.add(entry.context_);
    }
  }
  frames.symbolize();

  py::list segments;
  for (const auto& segment : snapshot.segments) {
    segments.append(segmentDict(segment, frames));
  }
  py::list traces;
  for (const auto& trace : snapshot.traces) {
    py::list entries;
    for (const auto& entry : trace) {
      entries.append(traceDict(entry, frames));
    }
    traces.append(std::move(entries));
  }
  py::dict result;
  result["segments"] = std::move(segments);
  result["device_traces"] = std::move(traces);
  result["allocator_settings"] = settingsDict();
  result["external_annotations"] = py::list();
  return result;
}

}  // namespace

void bindMemorySnapshot(py::module_& m) {
  m.def(
      "_start_memory_history", call(startMemoryHistory), py::arg("context"), py::arg("stacks"), py::arg("max_entries"), py::arg("clear"),
      py::arg("skip_actions"));
  m.def("_stop_memory_history", call([] { cachingAllocator().stopHistory(); }));
  m.def("_memory_snapshot", torch::wrap_pybind_function(memorySnapshot));
}

}  // namespace openreg
