// SPDX-License-Identifier: Apache-2.0
// What callers ask of the engine and what they get back, as plain data: no handles, no plans, no kernels.
#ifndef VICINAL_ENGINE_API_REQUESTS_H_
#define VICINAL_ENGINE_API_REQUESTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/api/order_kind.h"
#include "engine/api/tuning.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/base/tensor.h"
#include "engine/base/vocabulary.h"
#include "engine/base/work_limits.h"

namespace vicinal {

// Operation -> kernel name that must be taken. Keys that name no operation are INVALID_ARGUMENT.
using ForcedKernels = std::map<std::string, std::string>;

// How a request for some nodes is computed. The bits of the answer are the same either way.
enum class ReceptiveField {
  kAuto,    // only what the nodes depend on, where that is cheaper than the full graph
  kNever,   // the full graph
  kAlways,  // only what the nodes depend on; an error where that cannot be
};

// Whether the rows of all nodes are kept once they were computed, so that later queries only copy rows. The bits are
// the same either way.
enum class KeepAnswers {
  kNever,
  kAuto,    // once the queries of a model on a graph have cost as much as one pass over all nodes
  kAlways,  // after the first query
};

// Features as they come: dense [N, F], or CSR given by its three tensors.
struct FeatureTensors {
  std::optional<TensorView> dense;                    // x
  std::optional<TensorView> indptr, indices, values;  // x_indptr, x_indices, x_values
  int64_t feature_count = 0;                          // F of the CSR form
  std::string source_digest;                          // of what the upload was made from; opaque
  int64_t graph_version = 0;                          // of a set: the rows are of this one's nodes; 0: whichever serves
};

// A tensor of which type and size are known, but not yet the bytes: announced by an upload.
struct TensorSize {
  DataType dtype = DataType::kFloat32;
  int64_t bytes = 0;
};
struct FeatureSizes {
  std::optional<TensorSize> dense, indptr, indices, values;  // as FeatureTensors
};
struct GraphSizes {
  int64_t node_count = 0;
  TensorSize edge_index;
  std::optional<TensorSize> edge_weight, edge_attr;
  bool keep_edge_order = false;  // as GraphSource
  FeatureSizes features;
  OrderKind order = OrderKind::kAuto;
};

// Of an edge feature set [edges, cols].
struct EdgeFeatureSizes {
  TensorSize edge_attr;
  int64_t node_count = 0, edge_count = 0, cols = 0;
};

// Which nodes of a stored graph.
struct NodeSelection {
  bool all = false;
  std::vector<int64_t> ids;  // client's ids, any order, may repeat
};

// Features that come with a request. Views: the tensors must stay alive until the callback. The engine counts its own
// copies of them against the memory budget until then; the caller reserves the tensors themselves (Engine::memory).
struct RequestFeatures {
  FeatureTensors tensors;     // dense or CSR
  std::vector<int64_t> rows;  // empty: all nodes. Otherwise these nodes' rows are replaced in the stored set
};

// How a request is computed, and which output of the model it wants. Every kind of request has the same options; two
// requests with equal options for the same graph and model may share a run.
struct ExecutionOptions {
  ForcedKernels kernels;
  Storage precision = Storage::kFloat32;  // of rows gathered along edges; lower only where asked for
  ProductPrecision product_precision = ProductPrecision::kFloat32;  // of products with weights; likewise
  // Ignored where all nodes are asked for: that is the full graph. kAlways is FAILED_PRECONDITION (NO_RECEPTIVE_FIELD)
  // where a step of the model reads the whole graph, and where the device cannot do it.
  ReceptiveField receptive_field = ReceptiveField::kAuto;
  std::string output;  // a named output of the model; empty: "logits"

  friend bool operator==(const ExecutionOptions&, const ExecutionOptions&) = default;
  template <class H>
  friend H AbslHashValue(H hash, const ExecutionOptions& options) {
    for (const auto& [operation, kernel] : options.kernels) hash = H::combine(std::move(hash), operation, kernel);
    return H::combine(std::move(hash), options.kernels.size(), options.precision, options.product_precision,
                      options.receptive_field, options.output);
  }
};

// What a request may cost others. Interactive requests share the device among themselves; batch requests get what they
// leave, and a small part in any case.
enum class Priority { kInteractive, kBatch };

// Who asks. Requests of one principal have one share of the device and of the queue.
struct Requester {
  std::string principal;  // empty: the engine itself, such as the check of a model's reference
  Priority priority = Priority::kInteractive;
};

// The shape of an answer, known as soon as the request is resolved.
struct AnswerShape {
  int64_t rows = 0;
  int64_t width = 0;
  bool regression = false;  // of a model that predicts numbers, not classes
};

// What a classification needs of its logits. A device that can rank them then answers with RankedRows, so that the
// logits need not leave it.
struct WantedClasses {
  int64_t top_k = 1;  // 1 to the width of the answer; larger: the logits are given
  bool probabilities = false;
  bool logits = false;
};

struct WantedLinks;  // engine/api/links.h

// Whether the caller can use an answer of that shape. The engine asks once, before it queues the request and on the
// thread of Submit; an error refuses the request. May be empty: any shape will do.
using AnswerCheck = std::function<Status(const AnswerShape& shape)>;

struct InferenceRequest {
  std::string graph;
  int64_t graph_version = 0;
  std::string model;
  int64_t model_version = 0;
  std::string feature_set = "default";
  int64_t feature_set_version = 0;
  // Features of edges, for models that read them. Empty: the edge feature set `default`, or the graph's own edge_attr
  // where there is none.
  std::string edge_feature_set;
  int64_t edge_feature_set_version = 0;
  // If not empty: FAILED_PRECONDITION unless they are the engine's and the graph's (INCARNATION_MISMATCH,
  // IDS_DIGEST_MISMATCH).
  std::string incarnation, ids_digest;
  NodeSelection nodes;
  std::optional<RequestFeatures> features;
  ExecutionOptions options;
  // For outputs that are logits of classes. With it the result has either `ranked` or `values`; the bits of what is
  // made of either are the same where the processor has fused multiply-adds (engine/device/class_rows.h).
  std::optional<WantedClasses> classes;
  // Scores of links are asked for, not rows: `nodes` is ignored, and an empty ExecutionOptions::output means the
  // decoder's, or "logits". The shape that `check_answer` gets is that of the scores.
  std::shared_ptr<const WantedLinks> links;
  AnswerCheck check_answer;
  Requester requester;
  WorkLimits limits;
};

// A batch of small graphs with the request (views, as above). The receptive field is the batch: kAuto and kNever.
struct GraphBatchRequest {
  std::string model;
  int64_t model_version = 0;
  std::string incarnation;  // as InferenceRequest's
  TensorView ptr, edge_index;
  std::optional<TensorView> edge_weight, edge_attr;
  FeatureTensors features;
  ExecutionOptions options;
  AnswerCheck check_answer;
  Requester requester;
  WorkLimits limits;
};

struct ServedBy {
  std::string graph;
  int64_t graph_version = 0;
  std::string model;
  int64_t model_version = 0;
  std::string feature_set;  // empty when all features came with the request
  int64_t feature_set_version = 0;
  std::string edge_feature_set;  // empty: none was read, or the graph's own edge_attr
  int64_t edge_feature_set_version = 0;
  int64_t numerics_revision = 0;  // 0: kernels were forced, outside any revision
  std::string incarnation;        // of the engine
};

struct RequestTiming {
  double queue_seconds = 0.0;
  double plan_seconds = 0.0;
  double execute_seconds = 0.0;
};

// Rows whose classes were ranked where they were computed.
struct RankedRows {
  int64_t top_k = 1;
  std::vector<int32_t> classes;      // [rows, top_k], the most likely first
  std::vector<float> scores;         // [rows, top_k]: their probabilities
  std::vector<float> probabilities;  // [rows, width], if wanted
};

struct InferenceResult {
  ServedBy served_by;
  int64_t rows = 0;
  int64_t width = 0;
  std::vector<float> values;  // [rows, width], in the order asked for; with `ranked` only if wanted
  std::optional<RankedRows> ranked;
  // Of links `values` are their scores: [pairs, 1], or [nodes, k], best first, where nodes have fewer partners filled
  // with -infinity. With all edges: source and target of each, [edges, 2], by target, then source. With partners: their
  // ids [nodes, k], -1 where there is none. Of attention `values` are the weights [edges, heads], and `links` the
  // edges' sources and targets [edges, 2]: by target in the order asked for, then by source.
  std::vector<int64_t> links;
  // Counts large `values` against the memory budget until the last copy goes: a reply may leave slowly.
  std::shared_ptr<const void> held;
  // What was computed: the receptive field of the nodes asked for, or the full graph.
  bool receptive_field = false;
  int64_t computed_nodes = 0;  // nodes whose features were read: all of the graph, or of the receptive field
  int64_t run_requests = 1;    // requests that shared the run
  bool kept = false;           // the rows were kept from an earlier run (KeepAnswers); nothing was computed
  bool multi_label = false;
  bool regression = false;
  RequestTiming timing;
};
using InferenceCallback = std::function<void(StatusOr<InferenceResult>)>;

// An uploaded graph; owns its tensors, so that preparation can continue after the upload call.
struct GraphSource {
  std::string name;
  int64_t node_count = 0;
  HostTensor edge_index;
  std::optional<HostTensor> edge_weight;  // float32 [E]
  std::optional<HostTensor> edge_attr;    // float32, float16 or bfloat16 [E, A]
  // The feature set `default`, if the upload includes it (see FeatureTensors).
  std::optional<HostTensor> x, x_indptr, x_indices, x_values;
  int64_t feature_count = 0;
  OrderKind order = OrderKind::kAuto;
  // True: may replace a graph of this name; with if_version != 0 only that version.
  bool replace = false;
  int64_t if_version = 0;
  std::string ids_digest;     // of the client's own ids; opaque
  std::string source_digest;  // of what the upload was made from; opaque
  bool pinned = false;        // with a state directory: it is never evicted from memory
  // The graph may get edge feature sets, whose rows are in the order of edge_index. Implied by edge_attr.
  bool keep_edge_order = false;
};

// An edge feature set as it comes.
struct EdgeFeatureTensors {
  TensorView edge_attr;       // float32, float16 or bfloat16 [E, A], in the order of the graph's edge_index
  std::string source_digest;  // of what the upload was made from; opaque
  int64_t graph_version = 0;  // the rows are of this one's edges; 0: whichever serves
};

// Expected answers that come with a model.
struct ModelReference {
  std::string graph;  // a stored graph; empty: the graph is in `file`
  int64_t graph_version = 0;
  std::string feature_set = "default";
  std::string edge_feature_set;  // as InferenceRequest's
  double tolerance = 0.0;        // 0: 1e-4
  std::string file;              // safetensors, see proto ModelReference
};

struct ModelSource {
  std::string name;
  std::string architecture_json;
  std::string weights_file;  // safetensors
  std::optional<ModelReference> reference;
  std::string source_digest;  // of what the upload was made from; opaque
  bool replace = false;
  int64_t if_version = 0;
};

// A kernel with parameters by name, to be taken instead of what was measured.
struct ForcedConfiguration {
  std::string kernel;
  std::map<std::string, int32_t> parameters;  // those not named stay at the kernel's default
};

// Which kinds of work of a graph. Without `widths`: what plans on it have asked for so far, and what was tuned before,
// as far as it fits what else is listed; that is all there is of expressions, whose programs come with models. With
// widths every combination of what is listed, where an empty list means:
// kinds "sum", "mean", "max" (attention: "gat"; products: "float32"); heads 1; weights as models use them (none; for
// sums also the graph's, or per source where it has none). Widths of products need outputs; each pair is tuned with and
// without an epilogue. An empty operation means all where nothing is listed, else "aggregate"; with a forced kernel all
// that have it, or the first of them.
struct TuneGraphRequest {
  std::string graph;
  int64_t graph_version = 0;
  std::string operation;                     // "aggregate", "attention", "dense_update" or "expression"
  std::vector<std::string> kinds;            // reduces, attention kinds, or precisions of a product's factors
  std::vector<int64_t> widths;               // attention: of one head; products: inputs
  std::vector<int64_t> outputs;              // products only, with their widths
  std::vector<int64_t> heads;                // attention only
  std::vector<std::string> weights;          // "none", "per_edge", "per_source"; aggregate and expression only
  std::vector<std::string> programs;         // expression only: TuningKey::program
  Nanoseconds budget{0};                     // per key; 0: EngineOptions::tuning_budget, or 500 ms where that is 0
  std::optional<TuningStrategy> strategy;    // nullopt: EngineOptions::tuning_strategy
  bool reset = false;                        // forget what is recorded, and measure nothing
  std::optional<ForcedConfiguration> force;  // take this, and measure nothing
  // Decisions that Engine::ExportTuning wrote for the same kind of device: take these, and measure nothing. Alone: the
  // request selects no work.
  std::optional<std::string> import_text;
  bool wait = true;   // false: return at once, records in state kQueued
  WorkLimits limits;  // bound the wait; what was queued goes on after it
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_API_REQUESTS_H_
