// SPDX-License-Identifier: Apache-2.0
// Prepares an uploaded graph: assemble -> validate -> CSR by target -> renumber -> profile -> publish, each stage one
// named function, timed.
#ifndef VICINAL_ENGINE_PREPARE_PREPARE_H_
#define VICINAL_ENGINE_PREPARE_PREPARE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "engine/api/requests.h"
#include "engine/base/clock.h"
#include "engine/base/stats.h"
#include "engine/base/tensor.h"
#include "engine/prepare/choose_order.h"
#include "engine/prepared/edge_matrix.h"
#include "engine/prepared/prepared_graph.h"

namespace vicinal {

struct PrepareContext {
  Device* device = nullptr;
  const Clock* clock = nullptr;
  StatsSink* stats = nullptr;
  // Called after each stage, with the completed share (0 to 1) and the name of the next stage. May be empty.
  std::function<void(double progress, std::string_view next_stage)> on_progress;
  // Cache sizes for the profile; threads and the clock for choosing an order; and whether the graph is still
  // wanted, which is also checked between stages.
  ChooseOptions choose = {};
};

struct PreparedUpload {
  std::shared_ptr<const PreparedGraph> graph;
  std::shared_ptr<const FeatureMatrix> features;  // null: none
};

// Runs all stages on the calling thread: assemble (checks each id and weight, builds the edge list), validate (checks
// features against the graph), csr, renumber, profile, publish (features into execution order and onto the device).
// Frees the tensors of `source` as early as possible: dense features only once their rows have been written to where
// they stay, and page by page meanwhile on a CPU. CANCELLED if given up.
StatusOr<PreparedUpload> PrepareGraph(GraphSource source, int64_t version, const PrepareContext& context);

// Features for a prepared graph: validates them and puts them in execution order onto the device; dense ones in one
// step.
StatusOr<std::shared_ptr<const FeatureMatrix>> PrepareFeatures(const FeatureTensors& tensors,
                                                               const PreparedGraph& graph, Device& device);

// Likewise, and takes the bytes of the tensors (TakeRows). REQUIRES: CanTake.
StatusOr<std::shared_ptr<const FeatureMatrix>> TakeFeatures(const FeatureTensors& tensors, const PreparedGraph& graph,
                                                            Device& device);

// Features of a prepared graph's edges: validates them and puts them in execution order onto the device. `pool` may be
// null. FAILED_PRECONDITION (EDGE_ORDER_MISSING): the graph has not kept the order of its edges.
StatusOr<std::shared_ptr<const EdgeMatrix>> PrepareEdgeFeatures(const EdgeFeatureTensors& tensors,
                                                                const PreparedGraph& graph, Device& device,
                                                                ThreadPool* pool);

// A batch of small graphs as sent; views. `ptr` int64 [G + 1]: the first node of each graph, then the number of nodes.
struct BatchTensors {
  TensorView ptr, edge_index;
  std::optional<TensorView> edge_weight, edge_attr;
};

// The number of nodes that `ptr` declares. Compare it with the other tensors before PrepareBatch allocates for it.
// INVALID_ARGUMENT (BAD_PTR). Allocates 8 bytes per graph.
StatusOr<int64_t> BatchNodeCount(const TensorView& ptr);

// One block-diagonal graph in the order sent; proto GraphBatch lists the errors.
StatusOr<std::shared_ptr<const PreparedGraph>> PrepareBatch(const BatchTensors& batch, Device& device);

// Upper bound of the host bytes of PrepareBatch and of its result with that many nodes; for memory reservations.
int64_t BatchBytesBound(const BatchTensors& batch, int64_t nodes);

// Upper bound of the bytes that AssembleFeatures makes from the tensors: 16-bit numbers become floats.
int64_t AssembledBytesBound(const FeatureTensors& tensors);

// Sizes of tensors that are there.
FeatureSizes SizesOf(const FeatureTensors& tensors);
GraphSizes SizesOf(const GraphSource& source);

// Whether TakeFeatures can make features of those tensors: dense ones, on a CPU.
bool CanTake(const FeatureSizes& sizes, DeviceKind device);
// Upper bound of the host bytes of TakeFeatures, with the tensors.
int64_t TakenFeaturesBytesBound(const FeatureSizes& sizes);

// Upper bound of the host bytes of PrepareFeatures, with as much of the tensors as exceeds `reserved_bytes`.
int64_t FeaturePreparationBytesBound(const FeatureSizes& sizes, DeviceKind device, int64_t reserved_bytes);

// Upper bound of the host bytes of PrepareEdgeFeatures, with as much of the tensor as exceeds `reserved_bytes`.
int64_t EdgeFeaturePreparationBytesBound(const EdgeFeatureSizes& sizes, DeviceKind device, int64_t reserved_bytes);

// Upper bound of the host bytes for preparing and keeping such a graph with its features; for memory reservations.
int64_t PreparationBytesBound(const GraphSizes& sizes, DeviceKind device, AutoOrders among = AutoOrders::kAll);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_PREPARE_PREPARE_H_
