// SPDX-License-Identifier: Apache-2.0
// What our side of the comparison with peers can be told to run: an aggregation by the kernel and configuration that
// are fastest on it (on the CPU), scores of edges (on the CPU), and a model through a plan. Inputs are prepared once,
// as an upload prepares them; running is what is timed.
#ifndef VICINAL_BENCH_WORKER_TASKS_H_
#define VICINAL_BENCH_WORKER_TASKS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/api/requests.h"
#include "engine/base/status.h"
#include "engine/device/device.h"
#include "engine/kernels/open_device.h"
#include "engine/kernels/registry.h"
#include "engine/prepare/prepare.h"

namespace vicinal::bench {

// A device, the kernels, one context. Outlives the tasks.
struct Bench {
  // `device` as EngineOptions has it: "cpu", "cuda:0".
  static StatusOr<std::unique_ptr<Bench>> Open(int threads, const std::string& device);
  bool on_cpu() const { return device->kind() == DeviceKind::kCpu; }

  int threads = 1;
  KernelRegistry registry;
  OpenedDevice opened;
  Device* device = nullptr;
  std::unique_ptr<DeviceContext> context;
};

// Something that can be run again and again on the same inputs.
class Task {
 public:
  virtual ~Task() = default;
  virtual Status Run() = 0;
  // So many runs one after the other; on a GPU they are waited for together.
  virtual Status RunQueued(int count) {
    for (int run = 0; run < count; ++run) VICINAL_RETURN_IF_ERROR(Run());
    return OkStatus();
  }
  // The last run's result, rows in the client's order, [rows * width].
  virtual StatusOr<std::vector<float>> Result() const = 0;
  // Of a plan, as Explain tells.
  virtual int64_t scratch_bytes() const { return 0; }
  // Names of the kernels that ran.
  virtual std::vector<std::string> Kernels() const = 0;
};

// Prepares a graph out of a safetensors file with `edge_index` int32 [2, E], optional `edge_weight` [E] and
// `edge_attr` float32 [E, A], and features as `x`, or as `x_indptr`, `x_indices`, `x_values`. INVALID_ARGUMENT when the
// file is not there or not such a one.
StatusOr<PreparedUpload> LoadGraph(Bench& bench, const std::string& file, int64_t nodes, int64_t feature_count,
                                   const std::string& order);
// The same out of a binary graph (bench/binary_graph.h); its features are Pattern(nodes, feature_count).
StatusOr<PreparedUpload> LoadBinaryGraph(Bench& bench, const std::string& file, int64_t feature_count,
                                         const std::string& order);

// What to aggregate. The source rows are Pattern(nodes, width) of bench/pattern.h, in the client's order.
struct AggregateCell {
  Reduce reduce = Reduce::kSum;
  bool weighted = false;  // with the graph's edge weights
  int64_t width = 0;
  std::string kernel;                       // empty: the fastest of all, as tuning finds it
  std::optional<KernelConfig> config = {};  // of `kernel`; none: the fastest of its candidates
};
StatusOr<std::unique_ptr<Task>> MakeAggregateTask(Bench& bench, std::shared_ptr<const PreparedGraph> graph,
                                                  const AggregateCell& cell);

// The dot product of the rows of its ends for every edge, in the adjacency's order. The sources' rows are
// Pattern(nodes, width), in the client's order, and so are the targets', from the number nodes * width on.
struct ScoresCell {
  int64_t width = 0;
  KernelConfig config;  // of the kernel that a plan takes without tuning
};
StatusOr<std::unique_ptr<Task>> MakeScoresTask(Bench& bench, std::shared_ptr<const PreparedGraph> graph,
                                               const ScoresCell& cell);

// A forward pass over all nodes. On the CPU the answer's rows are put back into the client's order within the time; on
// a GPU they stay where the plan leaves them, on the device, as the peers' do. `tune`: kernels are measured on the
// graph first, as a server does in the background.
struct ForwardCell {
  std::string architecture_file, weights_file;
  bool tune = false;
  ForcedKernels forced;  // as in a request
};
StatusOr<std::unique_ptr<Task>> MakeForwardTask(Bench& bench, const PreparedUpload& graph, const ForwardCell& cell);

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_WORKER_TASKS_H_
