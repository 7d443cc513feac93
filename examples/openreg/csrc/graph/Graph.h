#pragma once

#include <ATen/core/GraphImplInterface.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "device/Graph.h"
#include "graph/RecordedCall.h"
#include "runtime/Event.h"
#include "runtime/Stream.h"

namespace openreg::graph {

// Implements torch.accelerator.Graph for this device. The SDK records kernels, copies and fills; emulated operators are
// recorded as calls of PyTorch's CPU kernels (RecordedCall). Tensors that are created during the capture have fixed addresses
// in the graph's memory pool until reset(). A device supports one capture at a time.
class Graph final : public at::GraphImplInterface {
 public:
  // Raises NotImplementedError if the device does not support graphs.
  explicit Graph(const at::GraphImplArgs& args);
  ~Graph() override;

  // Begins on the current stream of the current device. Default means Global.
  void capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode mode) override;
  void capture_end() override;
  void instantiate() override;

  // Replays on the current stream of the captured device.
  void replay() override;
  void reset() override;
  c10::MempoolId_t pool() const override;

  // Keeps the data for debug_dump; call it before the capture ends.
  void enable_debug_mode() override;

  // Writes a Graphviz file.
  void debug_dump(const std::string& path) override;

  // The graph whose capture is active on a device, or nullptr.
  static Graph* capturing(c10::DeviceIndex index);

  // Lets the SDK record a call. Any thread may call this.
  void add(std::unique_ptr<RecordedCall> call, device::StreamHandle stream);

 private:
  void abandon() noexcept;
  void checkCaptured() const;

  bool keep_graph_;
  bool debug_ = false;
  std::optional<Stream> stream_;  // where the capture began
  bool capturing_ = false;
  c10::MempoolId_t pool_{0, 0};
  device::GraphHandle graph_ = nullptr;
  device::GraphExecHandle exec_ = nullptr;
  Event replayed_;  // the end of the last replay
  std::mutex mutex_;  // guards calls_ while capturing
  std::vector<std::unique_ptr<RecordedCall>> calls_;
};

}  // namespace openreg::graph
