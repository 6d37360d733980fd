// SPDX-License-Identifier: Apache-2.0
// The public API of the engine, which keeps graphs, feature sets and models and runs models on graphs. It knows nothing
// of gRPC, protobuf, Prometheus or flags. All methods are thread-safe; errors follow docs/errors.md. Resources are
// returned as copies (resources.h).
//
// Work is submitted with a callback, which is called exactly once and must be quick (hand over, do not encode megabytes
// there): on the executor's thread, or for kept answers on the thread of Submit, before it returns, or on that of
// EngineOptions::run_elsewhere.
#ifndef VICINAL_ENGINE_API_ENGINE_H_
#define VICINAL_ENGINE_API_ENGINE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/api/given_tensors.h"
#include "engine/api/graph_picture.h"
#include "engine/api/order_kind.h"
#include "engine/api/requests.h"
#include "engine/api/resources.h"
#include "engine/api/subscription.h"
#include "engine/api/uploaded_version.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/stats.h"
#include "engine/base/status.h"
#include "engine/memory/memory_budget.h"

namespace vicinal {

struct EngineOptions {
  int num_threads = 0;              // for kernels; 0: the processors that this process may use
  std::string device = "auto";      // "auto", "cpu", or "cuda:N" (needs a backend)
  std::string backend_path;         // shared library of a device backend; empty: look beside the engine's own library
  int64_t memory_budget_bytes = 0;  // of Engine::memory(); 0: no bound
  // On a device with memory of its own, what may be allocated there; when it is short, the least recently used graphs
  // leave the device and stay on the host. 0: as much as the device has.
  int64_t device_memory_bytes = 0;
  int64_t max_queue = 1024;  // inference requests that may wait
  // How long a request may wait for others to share its run with while the device is idle.
  Nanoseconds max_batch_delay{0};
  int64_t max_queue_per_client = 0;  // of max_queue, for each principal; 0: no bound
  int64_t max_preparations = 16;     // graphs that may wait for preparation
  int64_t max_cached_plans = 256;
  int64_t max_graphs = 1000;
  int64_t max_feature_sets = 100;  // per graph
  int64_t max_models = 1000;
  // Of a batch in a request and of the graph in a model's reference; 0: no limit. The caller enforces upload limits.
  int64_t max_nodes = 0;
  // Kernels of a graph are tuned in the background, while no request waits: at most so long per kind of work (a
  // TuningKey), and per graph version. 0: graphs serve with the registry's defaults, unless TuneGraph asks.
  Nanoseconds tuning_budget = std::chrono::milliseconds(500);
  Nanoseconds max_tuning_per_graph = std::chrono::seconds(60);
  // With kMeasured, works that are too large or too busy to be measured are estimated (tuning/tuning_session.h).
  TuningStrategy tuning_strategy = TuningStrategy::kMeasured;
  KeepAnswers keep_answers = KeepAnswers::kNever;
  int64_t max_answer_bytes = 0;  // of all kept answers, within the budget; 0: a quarter of it, or 1 GiB without one
  // Runs a job on another thread, soon: large copies of kept answers. Every job ends before the engine does. Empty:
  // they are copied on the thread of Submit.
  std::function<void(std::function<void()> job)> run_elsewhere;
  // Keeps graphs, feature sets and models in this directory, which exists, and loads what is there. Empty: in memory
  // only.
  std::string state_dir;
  // Another engine writes state_dir; this one follows it and is asked only: uploads, deletions and TuneGraph are
  // FAILED_PRECONDITION (READ_REPLICA).
  bool state_read_only = false;
  // Of such an engine alone: where it keeps marks of kernels that run for the first time (docs/state.md, "Kernels").
  // Made if only its last component is missing. Empty: in memory only.
  std::string scratch_dir;
  std::chrono::milliseconds follow_period{250};  // how often a replica looks for changes
  // After which versions that found no space in state_dir are written again, at first.
  std::chrono::milliseconds state_retry_period{5000};
  std::string state_address;     // where clients reach this server, for replicas; empty: see Advertise
  const Clock* clock = nullptr;  // null: the real one
  StatsSink* stats = nullptr;    // null: none; must outlive the engine
  Logger* logger = nullptr;      // null: none; must outlive the engine
};

class Engine {
 public:
  // --- this build ---
  static std::vector<OrderKind> AvailableOrders();  // kMetis only where METIS was found; kAuto first
  static std::vector<LayerTypeInfo> LayerTypes();   // in alphabetical order
  static std::string InstructionSet();              // of CPU kernels on this processor: "AVX3_ZEN4", "AVX2", ...

  // FAILED_PRECONDITION: the device that was asked for is not there. With "auto" and no usable backend it runs on the
  // CPU and logs so. Errors of StateDirectory::Open for state_dir. INVALID_ARGUMENT
  // (BAD_SCRATCH_DIR): scratch_dir is a state directory, or lies in one. FAILED_PRECONDITION (STATE_LOCKED): another
  // engine has it.
  static StatusOr<std::unique_ptr<Engine>> Create(const EngineOptions& options);
  virtual ~Engine() = default;

  // --- graphs ---
  // Checks the name against what is there and starts preparation on its own thread; returns at once with the status of
  // the name. `memory` is the reservation of the source's tensors, such as that of the upload which brought them; it
  // becomes part of what preparation reserves, and is released with the tensors. Codes: ALREADY_EXISTS without
  // `replace`; ABORTED when if_version differs or another preparation of the name is under way; RESOURCE_EXHAUSTED when
  // there are too many graphs; OVER_BUDGET and BUDGET_FULL of MemoryBudget; UNAVAILABLE when too many wait.
  virtual StatusOr<GraphResource> PutGraph(GraphSource source, Reservation memory = {}) = 0;
  // Whether PutGraph of such tensors, PutFeatures or PutEdgeFeatures, could reserve its memory: FAILED_PRECONDITION
  // (OVER_BUDGET), never; RESOURCE_EXHAUSTED (BUDGET_FULL), not without a change that waiting does not bring. OK if it
  // may have to wait.
  virtual Status CheckGraphFits(const GraphSizes& sizes, bool replace) = 0;
  virtual Status CheckFeaturesFit(const FeatureSizes& sizes, bool replace) = 0;
  virtual Status CheckEdgeFeaturesFit(const EdgeFeatureSizes& sizes, bool replace) = 0;
  virtual StatusOr<GraphResource> GetGraph(const std::string& name) const = 0;
  virtual std::vector<GraphResource> ListGraphs() const = 0;
  virtual Status DeleteGraph(const std::string& name, int64_t if_version) = 0;
  // Measures kernels on the graph itself again, forces one, or forgets what was measured; with `wait` it blocks until
  // that is done. On a CPU results keep their bits (tuning.h). INVALID_ARGUMENT: unknown operation, kind, weights,
  // kernel or parameter (the message lists those there are), a width or number of heads below 1 or over the limit, too
  // many combinations, no widths and nothing known that fits the rest, `reset` together with `force`; KERNEL_REFUSED
  // when the forced kernel does not take the work or graph. NOT_FOUND; FAILED_PRECONDITION while the graph is not
  // ready; DEADLINE_EXCEEDED and CANCELLED when `limits` ended the wait.
  virtual StatusOr<TuningReport> TuneGraph(const TuneGraphRequest& request) = 0;
  // The decisions of a graph as text, for TuneGraphRequest::import_text. NOT_FOUND, FAILED_PRECONDITION.
  virtual StatusOr<std::string> ExportTuning(const std::string& graph) const = 0;
  // All records of a graph, those of keys that were only noted included. NOT_FOUND, FAILED_PRECONDITION.
  virtual StatusOr<TuningReport> GetTuning(const std::string& graph) const = 0;
  // Degrees and adjacency of the version that serves, for people (side tiles on each side, 1 to 256). Loads nothing.
  // NOT_FOUND; FAILED_PRECONDITION (GRAPH_NOT_READY): no version is in memory (one that has left the device is).
  virtual StatusOr<GraphPicture> Picture(const std::string& graph, int side) const = 0;
  // Calls `on_change` after each change of `name` (state, progress, deletion), until the subscription is destroyed.
  // Callbacks run one at a time (changes during a callback cause one more call), on the thread that made a change, and
  // must be quick. NOT_FOUND when there is no such graph now.
  virtual StatusOr<std::unique_ptr<Subscription>> WatchGraph(const std::string& name,
                                                             std::function<void()> on_change) = 0;

  // Validates, permutes and publishes on the calling thread. Of tensors that are `given`, dense ones are taken on a
  // CPU; others stay with the caller, with what it has reserved for them. Tensors that are not given are counted here.
  // `limits`: once they say so, publication waits for no further plans and answers, and nothing fails.
  virtual StatusOr<FeatureSetResource> PutFeatures(const std::string& graph, const std::string& name,
                                                   const FeatureTensors& tensors, bool replace, int64_t if_version,
                                                   const GivenTensors& given = {}, const WorkLimits& limits = {}) = 0;
  // The same for features of edges; the tensor stays with the caller, who has reserved `reserved_bytes` for it.
  // FAILED_PRECONDITION (EDGE_ORDER_MISSING): the graph was uploaded without edge_attr and keep_edge_order.
  virtual StatusOr<FeatureSetResource> PutEdgeFeatures(const std::string& graph, const std::string& name,
                                                       const EdgeFeatureTensors& tensors, bool replace,
                                                       int64_t if_version, int64_t reserved_bytes = 0,
                                                       const WorkLimits& limits = {}) = 0;
  // ABORTED if if_version != 0 and differs.
  virtual Status DeleteFeatures(const std::string& graph, const std::string& name,
                                FeatureKind kind = FeatureKind::kNodes, int64_t if_version = 0) = 0;

  // --- models ---
  // Loads, checks the reference (runs the model through the executor; blocks until then), publishes. `memory`: as
  // PutGraph's.
  virtual StatusOr<ModelResource> PutModel(ModelSource source, const WorkLimits& limits, Reservation memory = {}) = 0;
  virtual StatusOr<ModelResource> GetModel(const std::string& name) const = 0;
  virtual std::vector<ModelResource> ListModels() const = 0;
  virtual Status DeleteModel(const std::string& name, int64_t if_version) = 0;

  // --- what an upload waits for ---
  // Whether `wait_for` holds of the version by now. The version's own error, if it failed: that of its preparation, or
  // why it could not be written (RESOURCE_EXHAUSTED: the disk is full). ABORTED (UPLOAD_SUPERSEDED): it was replaced or
  // deleted before. FAILED_PRECONDITION (NO_STATE_DIRECTORY): kDurable without a state directory.
  virtual StatusOr<bool> HasReached(const UploadedVersion& version, WaitFor wait_for) const = 0;
  // Calls `on_change` after each change that may alter what HasReached returns, as WatchGraph does.
  virtual std::unique_ptr<Subscription> WatchVersion(const UploadedVersion& version,
                                                     std::function<void()> on_change) = 0;

  // --- inference ---
  // Checks what can be checked at once (names, ids, shapes) and queues. An error means that `done` is never called.
  virtual Status Submit(InferenceRequest request, InferenceCallback done) = 0;
  virtual Status SubmitBatch(GraphBatchRequest request, InferenceCallback done) = 0;
  // Builds the plan if need be (on the calling thread) and tells about it; runs nothing.
  virtual StatusOr<Explanation> Explain(const InferenceRequest& request) = 0;

  // The memory budget. Callers reserve from it what they hold themselves: uploads, and messages of requests while they
  // wait. It lives as long as the engine.
  virtual MemoryBudget& memory() = 0;

  // --- about ---
  virtual std::vector<DeviceInfo> Devices() const = 0;
  virtual std::vector<KernelStatus> Kernels() const = 0;
  virtual ResourceCounts Counts() const = 0;
  virtual int64_t quarantined_kernels() const = 0;  // configurations that do not run on this device any more
  virtual int64_t queue_depth() const = 0;
  virtual int64_t kept_answers() const { return 0; }  // outputs whose rows are kept for all nodes
  // How long requests have kept the executor busy, the one that runs now included. Never falls.
  virtual double busy_seconds() const = 0;
  // Not OK once nothing that needs the device will succeed in this process.
  virtual Status Health() { return OkStatus(); }

  // FAILED_PRECONDITION (READ_REPLICA), naming the address of the server that writes, if it has one: nothing can be
  // uploaded, deleted or tuned here.
  virtual Status CheckWritable() const { return OkStatus(); }
  // For whoever begins an upload that takes up to `bytes` on disk: errors of CheckWritable, and RESOURCE_EXHAUSTED
  // (STATE_DISK_FULL) while earlier uploads wait for space in the state directory and this one might, too.
  virtual Status CheckUploads(int64_t bytes) const {
    (void)bytes;
    return CheckWritable();
  }
  // False while graphs from the state directory are being loaded.
  virtual bool loaded() const { return true; }
  // Whether there is a state directory.
  virtual bool durable() const { return false; }
  // UUID of the engine's state: versions mean something within it only.
  virtual std::string incarnation() const { return {}; }

  // Refuses new inference, lets what is queued finish, and what serves be written to the state directory. False: the
  // `deadline` came first, or `hurry`, which is asked several times a second meanwhile, returned an error.
  virtual bool Drain(MonotonicTime deadline, const StopCheck& hurry = {}) = 0;

  // Where clients reach this server, once that is known: replicas of its state directory tell it to those who upload
  // there. No effect without such a directory or on a replica. Errors of the file system.
  virtual Status Advertise(const std::string& address) {
    (void)address;
    return OkStatus();
  }
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_API_ENGINE_H_
