// SPDX-License-Identifier: Apache-2.0
// What the engine keeps, as callers see it: graphs, feature sets, models, plans and devices at one moment. Plain
// copies: they hold no memory of the engine and never change.
#ifndef VICINAL_ENGINE_API_RESOURCES_H_
#define VICINAL_ENGINE_API_RESOURCES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/api/feature_kind.h"
#include "engine/api/graph_profile.h"
#include "engine/api/kernel_config.h"
#include "engine/api/order_kind.h"
#include "engine/api/requests.h"
#include "engine/api/tuning.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/base/vocabulary.h"

namespace vicinal {

// Whether a version survives the end of the process.
enum class Durability {
  kMemory,   // it does not: there is no state directory, or writing failed
  kWriting,  // not yet: it is being written, or waits for that
  kDurable,  // it does, whatever happens to the process or the machine's power
};

// Where the version of a graph that serves is. A request brings it to where kernels run, and waits for that.
enum class Tier {
  kDisk,    // on disk only
  kHost,    // on the host; on a server without a GPU, kernels run there
  kDevice,  // on the GPU
};

// --- graphs ---

enum class GraphState {
  kPreparing,
  kReady,
  kFailed,
  kLoading,  // the version in the state directory has not been read since the start; requests wait until it is
};

struct StageTime {
  std::string stage;
  double seconds = 0.0;
};

struct FeatureSetResource {
  FeatureKind kind = FeatureKind::kNodes;
  std::string graph;
  std::string name;
  int64_t version = 0;
  WallTime create_time{};
  int64_t node_count = 0;  // rows of a set of nodes
  int64_t edge_count = 0;  // rows of a set of edges
  int64_t feature_count = 0;
  bool sparse = false;
  int64_t entry_count = 0;  // nonzeros of a sparse set; of a dense one, all
  int64_t size_bytes = 0;
  std::string source_digest;  // as FeatureTensors, or as the GraphSource that it came with
  Durability durability = Durability::kMemory;
  Status durability_error;  // why writing failed; OK: it did not
};

// The version of a graph that serves requests.
struct ServingGraph {
  int64_t version = 0;
  WallTime create_time{};
  std::string ids_digest;     // as GraphSource
  std::string source_digest;  // likewise
  bool pinned = false;        // likewise
  Tier tier = Tier::kDevice;
  bool weighted = false;
  int64_t edge_feature_width = 0;  // of its own edge_attr; 0: it has none
  bool edge_order_kept = false;    // whether it can have edge feature sets
  OrderKind requested_order = OrderKind::kAuto;
  OrderKind order = OrderKind::kNone;  // never kAuto
  int64_t numerics_revision = 0;       // of plans in the standard order of additions
  int64_t size_bytes = 0;              // with what was derived from it so far
  std::vector<StageTime> stages;       // of its preparation
  GraphProfile profile;
  Durability durability = Durability::kMemory;
  Status durability_error;  // why writing failed; OK: it did not

  bool in_memory() const { return tier != Tier::kDisk; }
};

struct GraphResource {
  std::string name;
  GraphState state = GraphState::kPreparing;
  double progress = 0.0;  // while preparing: 0 to 1
  std::string stage;      // the stage that runs, while preparing
  Status error;           // of the last preparation, when it failed
  // The version that is being prepared, 0 if none is; in the result of PutGraph, the version that the upload becomes.
  int64_t preparing_version = 0;
  int64_t node_count = 0;  // as the upload declared while preparing, as prepared afterwards
  int64_t edge_count = 0;
  std::optional<ServingGraph> serving;  // nullopt: no version serves
  // While FAILED, the published version that cannot be loaded; 0: there is none.
  int64_t unloaded_version = 0;
  std::string incarnation;                       // of the engine
  std::vector<FeatureSetResource> feature_sets;  // by kind, then name
};

struct TuningReport {
  std::string graph;
  int64_t graph_version = 0;
  std::vector<TuningRecord> records;  // of the keys asked for
};

// --- models ---

// One layer after loading.
struct LayerInfo {
  std::string name;            // unique; also the name of its output
  std::string type;            // "GCNConv", "ReLU", ...
  std::string arguments_json;  // all its arguments, including defaults
  std::string tensor_prefix;
  std::vector<std::string> inputs;  // names of layers, or "x"
  Locality locality = Locality::kNode;
  int64_t width = 0;
};

struct ModelResource {
  std::string name;
  int64_t version = 0;
  WallTime create_time{};
  int64_t feature_count = 0;
  int64_t class_count = 0;
  bool graph_level = false;  // ends in one row per graph
  bool multi_label = false;
  bool regression = false;         // answers are numbers, not scores of classes
  bool uses_edge_weight = false;   // some layer needs a weighted graph
  int64_t edge_feature_width = 0;  // features that layers read of each edge; 0: none does
  std::vector<LayerInfo> layers;
  std::vector<std::string> outputs;  // names that ExecutionOptions::output takes
  std::string decoder;               // of links: "distmult", ...; empty: the document has none
  std::string decoder_output;        // the output whose rows it takes
  int64_t decoder_relations = 0;
  int64_t parameter_count = 0;
  int64_t size_bytes = 0;
  bool reference_checked = false;
  double reference_error = 0.0;  // largest relative error against the reference, where it was checked
  std::string source_digest;     // as ModelSource
  std::string incarnation;       // of the engine
  Durability durability = Durability::kMemory;
  Status durability_error;  // why writing failed; OK: it did not
};

// A layer type with the names of its arguments, supported and unsupported.
struct LayerTypeInfo {
  std::string type;
  std::vector<std::string> supported;
  std::vector<std::string> refused;
};

// --- plans ---

// One executable step, as Explain shows it.
struct PlanStepInfo {
  std::string operation;    // "aggregate", "dense_update", ...
  std::string layers;       // the model's layers that it computes: "conv1 + act1"
  std::string description;  // "[2708, 16] = sparse x [2708, 1433] * W^T"
  Locality locality = Locality::kNode;
  std::string kernel;
  std::vector<NamedParameter> parameters;  // of the kernel; 0: its default
  std::vector<KernelRefusal> refusals;
  std::optional<TuningKey> tuning_key;  // for operations that are tuned
  bool tuned = false;                   // kernel and parameters come from the graph's tuning table
  int64_t predicted_bytes = 0;
  int64_t predicted_operations = 0;
  int64_t run_count = 0;  // over the full graph
  // Total time of these runs. On a GPU only some runs are timed, the rest is extrapolated; 0 until the first timed run.
  double total_seconds = 0.0;
  // The same over receptive fields, whose cost differs from run to run; predicted_* refer to the full graph. Not timed
  // on a GPU.
  int64_t receptive_field_run_count = 0;
  double receptive_field_total_seconds = 0.0;
};

// How rows become scores of links.
struct LinkScoringInfo {
  std::string decoder;  // "dot", ...
  std::string output;   // of the model, whose rows are scored
  int64_t width = 0;    // of that output
  int64_t operations_per_pair = 0;
  std::string kernel;                      // of edge_scores
  std::vector<NamedParameter> parameters;  // of the kernel; 0: its default
};

struct Explanation {
  ServedBy served_by;
  std::vector<PlanStepInfo> steps;
  std::vector<std::optional<TuningRecord>> tuning;  // one per step; none where a step's operation is not tuned
  std::vector<std::string> decisions;
  int64_t scratch_bytes = 0;        // of the plan
  int64_t whole_scratch_bytes = 0;  // of the plan without tiles
  int64_t tiled_scratch_bytes = 0;  // of the plan with tiles
  std::optional<LinkScoringInfo> links;
  std::string order;  // of the graph, and why
  std::string device;
};

// --- the engine ---

struct DeviceInfo {
  std::string name;
  std::string description;
  std::string pci_address;  // of a GPU, for example "0000:17:00.0"; empty: the CPU
};

struct KernelStatus {
  std::string operation;
  std::string name;
  std::string device;
  int64_t launches = 0;
  std::vector<std::string> parameters = {};  // names, as ForcedConfiguration takes them
};

// Bytes of what is stored, by what it is.
struct StoredBytes {
  int64_t graphs = 0;
  int64_t features = 0;
  int64_t models = 0;
};

struct ResourceCounts {
  int64_t graphs = 0;
  int64_t resident_graphs = 0;  // those in memory
  int64_t host_graphs = 0;      // of these, those that have left the device
  int64_t feature_sets = 0;
  int64_t models = 0;
  int64_t not_durable = 0;      // versions that could not be written, and serve from memory
  WallTime last_state_write{};  // when a version was last written; the epoch: never in this process
  StoredBytes on_disk = {};     // of published versions: data files, without their holes
  StoredBytes on_host = {};
  // Of a device with memory of its own. The copies of weights that plans have count as the plans'.
  StoredBytes on_device = {};
  int64_t device_allocated_bytes = 0;  // of all kinds, on such a device
  int64_t device_limit_bytes = 0;      // EngineOptions::device_memory_bytes
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_API_RESOURCES_H_
