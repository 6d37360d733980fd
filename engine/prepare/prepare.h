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
#include "engine/prepared/prepared_graph.h"

namespace vicinal {

struct PrepareContext {
  Device* device = nullptr;
  const Clock* clock = nullptr;
  StatsSink* stats = nullptr;
  // Called when a stage ends, with the share done (0 to 1) and the name of the next stage. May be empty.
  std::function<void(double progress, std::string_view next_stage)> on_progress;
  // Cache sizes for the profile; threads and the clock for choosing an order; and whether the graph is still
  // wanted, which is also checked between stages.
  ChooseOptions choose = {};
};

struct PreparedUpload {
  std::shared_ptr<const PreparedGraph> graph;
  std::shared_ptr<const FeatureMatrix> features;  // null when none came
};

// Runs all stages on the calling thread: assemble (edges out of their tensors, each id and weight checked), validate
// (features out of theirs, checked against the graph), csr, renumber, profile, publish (features into execution order
// and onto the device). `source`'s tensors are freed as soon as they are not needed. CANCELLED when it was given up.
StatusOr<PreparedUpload> PrepareGraph(GraphSource source, int64_t version, const PrepareContext& context);

// Features for a graph that is there: assembled, validated, permuted into its execution order, put on the device.
StatusOr<std::shared_ptr<const FeatureMatrix>> PrepareFeatures(const FeatureTensors& tensors,
                                                               const PreparedGraph& graph, Device& device);

// A batch of small graphs as it was sent; views. `ptr` int64 [G + 1]: where each graph's nodes begin, and their number.
struct BatchTensors {
  TensorView ptr, edge_index;
  std::optional<TensorView> edge_weight;
};

// What `ptr` gives as the number of nodes: a claim, to be compared with what came along before PrepareBatch allocates
// for it. INVALID_ARGUMENT (BAD_PTR). Allocates 8 bytes per graph.
StatusOr<int64_t> BatchNodeCount(const TensorView& ptr);

// As one block-diagonal graph in the order sent; see proto GraphBatch for what is refused.
StatusOr<std::shared_ptr<const PreparedGraph>> PrepareBatch(const BatchTensors& batch, Device& device);

// Upper bound of host bytes that PrepareBatch takes, and of the graph that it makes of so many nodes; for admission.
int64_t BatchBytesBound(const BatchTensors& batch, int64_t nodes);

// The most that AssembleFeatures makes of the tensors: numbers of 16 bits become floats.
int64_t AssembledBytesBound(const FeatureTensors& tensors);

// Upper bound of host bytes that PrepareFeatures takes, beside the tensors: as assembled, and again in execution order
// or where they are kept.
int64_t FeaturePreparationBytesBound(const FeatureTensors& tensors);

// Upper bound of host bytes that preparing and keeping such a graph takes, features included; for admission.
int64_t PreparationBytesBound(const GraphSource& source);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_PREPARE_PREPARE_H_
