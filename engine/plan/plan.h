// SPDX-License-Identifier: Apache-2.0
// A plan marries a model to a prepared graph: steps rewritten (order of aggregation and update by cost, biases and
// activations fused, sibling products joined), a kernel chosen for each, weights packed, scratch booked. Building
// allocates; running does not.
#ifndef VICINAL_ENGINE_PLAN_PLAN_H_
#define VICINAL_ENGINE_PLAN_PLAN_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/api/requests.h"
#include "engine/base/clock.h"
#include "engine/base/stats.h"
#include "engine/base/status.h"
#include "engine/kernels/registry.h"
#include "engine/model/model.h"
#include "engine/plan/receptive_field/receptive_field.h"
#include "engine/prepared/prepared_graph.h"
#include "engine/tune/record.h"

namespace vicinal {

// The shape of the features a plan is made for.
struct FeatureShape {
  bool sparse = false;
  int64_t cols = 0;
  int64_t nnz =
      0;  // sparse: of the features that the plan was made with; costs are counted with it, other counts run too
  // Sparse with so many nonzeros that neighbours are compared faster as dense rows. It decides how a maximum over the
  // input is computed, and with it bits: part of the key of a plan, as `sparse` is.
  bool crowded = false;

  static FeatureShape Of(const FeatureMatrix& features);
};

struct PlanRequest {
  std::shared_ptr<const Model> model;
  std::shared_ptr<const PreparedGraph> graph;
  FeatureShape features;
  ValueId output = 0;
  ForcedKernels forced;
  Storage precision = Storage::kFloat32;                   // of rows that are gathered along edges
  ProductPrecision products = ProductPrecision::kFloat32;  // of products with weights; all else is float32 always
  // Of the graph's tuning table when the plan was asked for: a plan of an older one is out of date.
  int64_t tuning_revision = 0;
  int num_threads = 1;  // the most that a context which runs the plan has: each may need scratch of its own
};

// One executable step, as Explain shows it.
struct PlanStepInfo {
  std::string operation;    // "aggregate", "dense_update", ...
  std::string layers;       // names of the model's layers it carries out: "conv1 + act1"
  std::string description;  // "[2708, 16] = sparse x [2708, 1433] * W^T"
  Locality locality = Locality::kNode;
  std::string kernel;
  std::vector<NamedParameter> parameters;  // of the kernel; zeros: its own defaults
  std::vector<KernelRefusal> refusals;
  std::optional<TuningKey> tuning_key;  // for operations that are tuned
  bool tuned = false;                   // kernel and parameters are what the graph's tuning table says
  int64_t predicted_bytes = 0;
  int64_t predicted_operations = 0;
  int64_t run_count = 0;  // over the full graph
  // Of those runs. On a GPU only some are timed, and count for all; 0 before the first of them.
  double total_seconds = 0.0;
  // Over receptive fields: apart, because what one takes depends on its field, and predicted_* are of the full graph.
  // Not timed on a GPU.
  int64_t receptive_field_run_count = 0;
  double receptive_field_total_seconds = 0.0;
};

// Asked between steps, and on the CPU between blocks of rows within one, on the thread that builds or runs the plan; a
// status that is not OK (cancelled, deadline) stops the work and is returned.
using StopCheck = std::function<Status()>;

// Asked each time before a plan takes memory, with the bytes of that time. First of what building holds until it ends:
// what rewriting the model may take at most, then what packing its weights takes. Last of what there is more once the
// plan is built: scratch, weights and what the graph derives for it and keeps, on the device, and its steps on the
// host; exact, but for layouts of adjacencies, of which the most that they may take. A status that is not OK ends the
// building.
using PlanAdmission = std::function<Status(int64_t bytes)>;

class Plan {
 public:
  // FAILED_PRECONDITION: features of another width than the model's, edge weights missing. INVALID_ARGUMENT: forced
  // kernels unknown or refusing. RESOURCE_EXHAUSTED: no memory for scratch. And what `admit` and `stop` say, where they
  // are given; `stop` is asked between passes over the model and between steps.
  static StatusOr<std::shared_ptr<Plan>> Build(const PlanRequest& request, const KernelRegistry& registry,
                                               Device& device, const PlanAdmission& admit = nullptr,
                                               const StopCheck& stop = nullptr);

  virtual ~Plan() = default;

  // Runs all steps. The result [rows, width] lies in the plan's scratch, in execution order, until the next Run. One
  // caller at a time (the executor). Does not allocate once it has run before. Reports each step's time to `stats`
  // under its operation's name; on a GPU, of those runs whose steps are timed.
  virtual StatusOr<ConstMatrixView> Run(DeviceContext& context, const FeatureMatrix& features, const StopCheck& stop,
                                        StatsSink& stats, const Clock& clock) = 0;

  // `count` runs one after the other. In a context that only launches they are queued and waited for together, at the
  // end: for those who measure what a run takes apart from the wait for it.
  virtual Status RunQueued(DeviceContext& context, const FeatureMatrix& features, int count);

  // What a run over a receptive field takes, or why there is none. Immutable.
  virtual const ReceptiveFieldShape& field() const = 0;
  // As Run, for the field that `work->finder` found last with field(): row i of the result is its node i, for the nodes
  // that were asked for; the same bits as theirs in Run's result. Does not allocate once `work` is large enough; errors
  // of its account too. Reports the gathering of features as phase "field_features"; on a GPU its sending, and no
  // steps.
  virtual StatusOr<ConstMatrixView> RunReceptiveField(DeviceContext& context, const FeatureMatrix& features,
                                                      ReceptiveFieldWorkspace* work, const StopCheck& stop,
                                                      StatsSink& stats, const Clock& clock) = 0;

  // Thread-safe.
  virtual std::vector<PlanStepInfo> Steps() const = 0;
  virtual std::vector<std::string> Decisions() const = 0;  // what the rewriter and runs decided, in sentences
  // Goes on counting where another plan for the same request stopped: each step that is carried out by the same kernel
  // with the same parameters takes over the other's runs and times; the others have begun anew.
  virtual void ContinueCounts(const std::vector<PlanStepInfo>& before) { (void)before; }
  virtual int64_t scratch_bytes() const = 0;
  virtual int64_t step_bytes() const { return 0; }  // in host memory: its steps, and what it tells about them
  virtual int64_t size_bytes() const = 0;           // scratch, packed weights and steps
  // Tells the order in which the terms of rows are added, and how these are stored, as a number of 32 bits: plans of
  // one model, graph and kind of processor with equal numbers give equal bits. 0: the order that the device's kernels
  // have in common, and float32.
  virtual int64_t reduction_order() const { return 0; }
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_PLAN_PLAN_H_
