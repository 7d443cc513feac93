// A graph: captured work that can be submitted again as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "completion.h"
#include "status.h"
#include "task.h"

namespace emulator {

struct GraphNode {
  TaskPtr work;
  int device;
  std::uintptr_t stream;  // handle of the stream to which the work was submitted
  std::vector<std::size_t> after;  // nodes that this one depends on
};

// Nodes in the order of capture. Each is behind all nodes that it depends on. Immutable after the capture.
class Graph {
 public:
  const std::vector<GraphNode>& nodes() const { return nodes_; }

  // Returns the new node's index.
  std::size_t add(GraphNode node);

  // Whether these nodes depend, directly or indirectly, on all others.
  bool allBefore(const std::vector<std::size_t>& ends) const;

  // Whether the calling thread may run it: it has no host function and no long work.
  bool mayRunAtOnce() const { return may_run_at_once_; }

  // Whether a node belongs to the device, by its stream or its addresses.
  bool uses(int device) const { return ((devices_ >> device) & 1) != 0; }

  // Success unless one of the devices is lost.
  Status checkDevices() const;

  // Runs it on the calling thread. An exception ends it.
  void run() const;

  // In the language of Graphviz.
  Status dump(const char* path) const;

 private:
  std::vector<GraphNode> nodes_;
  bool may_run_at_once_ = true;
  std::uint64_t devices_ = 0;  // a bit for each
};

// The object behind a graph handle of the C interface. Objects are never freed, only reused. Thread-safe.
class GraphSlot {
 public:
  void open(std::shared_ptr<const Graph> graph);
  void close();
  std::shared_ptr<const Graph> get();

 private:
  std::mutex mutex_;
  std::shared_ptr<const Graph> graph_;
};

// Never runs concurrently with itself.
class GraphExec {
 public:
  void open(std::shared_ptr<const Graph> graph);
  void close();
  std::shared_ptr<const Graph> get();

  // Submits the whole graph as one task.
  Status launch(ThreadState& thread, Stream& stream, bool at_once);

 private:
  std::mutex mutex_;
  std::shared_ptr<const Graph> graph_;
  CompletionPtr latest_;  // end of the launch before
};

}  // namespace emulator
