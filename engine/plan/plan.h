// SPDX-License-Identifier: Apache-2.0
// A plan binds a model to a prepared graph. Building one rewrites the model's steps (order of aggregation and update by
// cost, biases and activations fused, sibling products joined), chooses a kernel for each, packs the weights and
// allocates all memory. Running a plan allocates nothing.
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
#include "engine/api/resources.h"
#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "engine/base/stats.h"
#include "engine/base/status.h"
#include "engine/kernels/registry.h"
#include "engine/model/model.h"
#include "engine/plan/receptive_field/receptive_field.h"
#include "engine/plan/receptive_field/replaced_rows.h"
#include "engine/prepared/edge_matrix.h"
#include "engine/prepared/prepared_graph.h"

namespace vicinal {

class FirstRuns;

// The shape of the features a plan is made for.
struct FeatureShape {
  bool sparse = false;
  int64_t cols = 0;
  int64_t nnz =
      0;  // sparse: nonzeros of the features that the plan was built with, for cost estimates; other numbers work, too
  // Sparse, but with so many nonzeros that a maximum over neighbours is faster with dense rows. Changes the order of
  // operations and so the bits; part of a plan's key, like `sparse`.
  bool crowded = false;

  static FeatureShape Of(const FeatureMatrix& features) { return Of(features, features.entries()); }
  // The same of features with that many entries instead.
  static FeatureShape Of(const FeatureMatrix& features, int64_t entries);
};

struct PlanRequest {
  std::shared_ptr<const Model> model;
  std::shared_ptr<const PreparedGraph> graph;
  FeatureShape features;
  // Columns of the edge feature sets that come with runs; 0: the graph's own features of edges are read, if any.
  int64_t edge_set_cols = 0;
  ValueId output = 0;
  ForcedKernels forced;
  Storage precision = Storage::kFloat32;  // of rows that are gathered along edges
  ProductPrecision products =
      ProductPrecision::kFloat32;  // of products with weights; everything else is always float32
  // Revision of the graph's tuning table at the time of the request. A plan of an older revision is out of date.
  int64_t tuning_revision = 0;
  int64_t quarantine_revision = 0;  // of `first_runs`, likewise
  // Quarantined configurations are not chosen, and first runs are told to it. It outlives the plan. Null: neither.
  FirstRuns* first_runs = nullptr;
  int num_threads = 1;  // maximum over all contexts that run the plan; kernels may need scratch per thread
};

// What a run reads.
struct RunInputs {
  // NOLINTNEXTLINE(google-explicit-constructor): most plans read nothing else.
  RunInputs(const FeatureMatrix& of_nodes, const EdgeMatrix* of_edges = nullptr)
      : features(of_nodes), edges(of_edges) {}

  const FeatureMatrix& features;
  const EdgeMatrix* edges;  // of a plan with edge_set_cols; else not read
};

// Called before each phase of building, with the bytes that the phase needs: rewriting the model (an upper bound),
// packing its weights, and last the finished plan: scratch, packed weights and the data that the graph derives and
// keeps for it, on the device, and its steps, on the host. The last call is exact, except for layouts of adjacencies,
// which count with their upper bounds; it is repeated if a tuned kernel does not support an adjacency. A status other
// than OK ends the build.
using PlanAdmission = std::function<Status(int64_t bytes)>;

class Plan {
 public:
  // FAILED_PRECONDITION: the features have the wrong width, edge weights are missing, or all kernels of a step, or the
  // forced one, are quarantined. INVALID_ARGUMENT: forced kernels are unknown or do not support a step.
  // RESOURCE_EXHAUSTED: out of memory for scratch. Errors of `admit` and `stop`, each of which may be empty; `stop` is
  // called between passes over the model and between steps.
  static StatusOr<std::shared_ptr<Plan>> Build(const PlanRequest& request, const KernelRegistry& registry,
                                               Device& device, const PlanAdmission& admit = nullptr,
                                               const StopCheck& stop = nullptr);

  virtual ~Plan() = default;

  // Held by whoever runs the plan, until the result has been read.
  Mutex& in_use() { return in_use_; }

  // Runs all steps. The result [rows, width] is in the plan's scratch, in execution order, and valid until the next
  // run. One caller at a time, who holds in_use(). Allocates nothing after the first run. Reports each step's time to
  // `stats` under its operation's name; on a GPU, only of timed runs.
  virtual StatusOr<ConstMatrixView> Run(DeviceContext& context, const RunInputs& inputs, const StopCheck& stop,
                                        StatsSink& stats, const Clock& clock) = 0;

  // Runs `count` times. In a context that only launches, queues all runs and waits once, at the end: for measurements
  // without the wait.
  virtual Status RunQueued(DeviceContext& context, const RunInputs& inputs, int count);

  // The cost of a run over a receptive field, or why the plan supports none. Immutable.
  virtual const ReceptiveFieldShape& field() const = 0;
  // Like Run, over the receptive field that `work->finder` found last with field(). Row i of the result is node i of
  // the field, for the requested nodes, with the same bits as in Run's result. `replaced` (null: none) stand for rows
  // of the features of nodes; REQUIRES: null on a device with memory of its own. Allocates nothing once `work` is large
  // enough; errors include those of its account. Reports the gathering of features (on a GPU, sending) as phase
  // "field_features"; on a GPU no steps.
  virtual StatusOr<ConstMatrixView> RunReceptiveField(DeviceContext& context, const RunInputs& inputs,
                                                      const ReplacedRows* replaced, ReceptiveFieldWorkspace* work,
                                                      const StopCheck& stop, StatsSink& stats, const Clock& clock) = 0;

  // Thread-safe.
  virtual std::vector<PlanStepInfo> Steps() const = 0;
  virtual std::vector<std::string> Decisions()
      const = 0;  // decisions of the rewriter, the builder and runs, in sentences
  // Continues the counts of an earlier plan for the same request: a step with the same kernel and parameters takes over
  // the runs and times; other steps start from zero.
  virtual void ContinueCounts(const std::vector<PlanStepInfo>& before) { (void)before; }
  virtual int64_t scratch_bytes() const = 0;
  // The same if every step computed all rows before the next one begins, and if steps run in tiles of rows where they
  // can (build/row_tiles.h). The plan has the smaller one only if its admission refused the larger one.
  virtual int64_t whole_scratch_bytes() const { return scratch_bytes(); }
  virtual int64_t tiled_scratch_bytes() const { return scratch_bytes(); }
  virtual int64_t step_bytes() const { return 0; }  // in host memory: the steps and their descriptions
  virtual int64_t size_bytes() const = 0;           // scratch, packed weights and steps
  // Identifies the order in which the terms of each row are added, and their storage. Plans of one model, graph and
  // kind of processor with equal numbers give equal bits. 0: the order that the device's kernels share, and float32.
  virtual int64_t reduction_order() const { return 0; }

 private:
  Mutex in_use_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_PLAN_PLAN_H_
