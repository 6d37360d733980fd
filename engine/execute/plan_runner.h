// SPDX-License-Identifier: Apache-2.0
// Runs requests: finds or builds the plan of a request, runs it, and brings the rows into the client's ids.
#ifndef VICINAL_ENGINE_EXECUTE_PLAN_RUNNER_H_
#define VICINAL_ENGINE_EXECUTE_PLAN_RUNNER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/stats.h"
#include "engine/execute/plan_cache.h"
#include "engine/execute/receptive_field_memory.h"
#include "engine/execute/request_runner.h"
#include "engine/execute/run_for_nodes.h"
#include "engine/kernels/registry.h"
#include "engine/memory/memory_budget.h"
#include "engine/plan/plan.h"

namespace vicinal {

class PlanRunner final : public RequestRunner {
 public:
  struct Parts {
    Device* device = nullptr;
    const KernelRegistry* registry = nullptr;
    FirstRuns* first_runs = nullptr;  // of all plans; may be null
    PlanCache* plans = nullptr;
    MemoryBudget* budget = nullptr;
    ReceptiveFieldMemory* receptive_field_memory = nullptr;  // used by Run only
    const Clock* clock = nullptr;
    StatsSink* stats = nullptr;
    // Called with the graph of each new plan, before the plan is cached, and of a plan that was made ahead, when it is
    // first used. May be empty; must be quick.
    std::function<void(const std::shared_ptr<const PreparedGraph>& graph)> on_plan;
    // Called after each run for a request, with its share of the predicted cost of a full pass and the seconds it took.
    // May be empty; must be quick.
    std::function<void(const QueuedRequest& request, double share, double seconds)> on_run;
    // Kernel threads of the largest context that plans of the cache run on: they have scratch per thread. Empty: those
    // of the context that asks.
    std::function<int()> num_threads;
  };
  // All parts must outlive the runner.
  explicit PlanRunner(const Parts& parts) : parts_(parts) {}

  // Whether rows in host memory can be scored as they are.
  bool reads_host_memory() const { return parts_.device->kind() == DeviceKind::kCpu; }

  StatusOr<InferenceResult> Run(const QueuedRequest& request, DeviceContext& context) override;
  // Runs over the union of the receptive fields, or over the full graph; on a CPU also over several batches of graphs.
  // If that fails, each request runs alone.
  std::vector<StatusOr<InferenceResult>> RunTogether(const std::vector<const QueuedRequest*>& requests,
                                                     DeviceContext& context) override;

  // The output of all nodes, and what is known of it.
  struct AllRows {
    std::vector<float> values;  // [rows, width], by the client's ids
    int64_t rows = 0;
    int64_t width = 0;
    int64_t numerics_revision = 0;
    int64_t tuning_revision = 0;
  };
  // Runs the request's plan over the full graph, whatever its nodes and limits, unless `is_wanted` says that a plan of
  // that numerics revision need not run: then without values. `admit` is called with the bytes of the values before
  // they are copied. On the executor's thread. Errors: PlanFor's, Plan::Run's, those of `stop` and `admit`.
  StatusOr<AllRows> RunAll(const QueuedRequest& request, DeviceContext& context, const StopCheck& stop,
                           const std::function<bool(int64_t numerics_revision)>& is_wanted,
                           const std::function<Status(int64_t bytes)>& admit);
  // The same with a plan of the request; tuning_revision is left 0.
  StatusOr<AllRows> RunAll(const QueuedRequest& request, Plan& plan, DeviceContext& context, const StopCheck& stop,
                           const std::function<bool(int64_t numerics_revision)>& is_wanted,
                           const std::function<Status(int64_t bytes)>& admit);

  // The plan of a request: from the cache, or newly built with its memory reserved. Runs nothing. Any thread may call
  // it. `num_threads`: the maximum number of threads of the contexts that will run the plan. Errors: Plan::Build's, the
  // budget's, and CANCELLED or DEADLINE_EXCEEDED of the request's limits.
  StatusOr<std::shared_ptr<Plan>> PlanFor(const QueuedRequest& queued, int num_threads);
  // The same, with errors of `stop` instead of the request's limits.
  StatusOr<std::shared_ptr<Plan>> PlanFor(const QueuedRequest& queued, int num_threads, const StopCheck& stop);
  // Builds the plan, unless it is kept, before a request needs it, and keeps it (PlanCache::InsertAhead). Evicts
  // nothing for it. Runs nothing. Any thread may call it. Of `request`, revisions, threads and first runs are set here.
  // Errors as PlanFor.
  StatusOr<std::shared_ptr<Plan>> MakeAhead(PlanRequest request, const std::string& model_name);
  // The same for the plan of `request`.
  StatusOr<std::shared_ptr<Plan>> MakeAhead(const QueuedRequest& request);

 private:
  // PlanFor, with room for `answer_bytes` beside the plan.
  StatusOr<std::shared_ptr<Plan>> PlanWithRoom(const QueuedRequest& queued, int64_t answer_bytes, int num_threads,
                                               const StopCheck& stop);
  // The same, unless a plan that tuning outdated is still kept: then that one.
  StatusOr<std::shared_ptr<Plan>> PlanToRun(const QueuedRequest& queued, int64_t answer_bytes, int num_threads,
                                            const StopCheck& stop);
  // The same. A kept plan that leaves no room is replaced by one in tiles, if that does. The budget's errors if the
  // answer does not fit: before anything runs, and without RetryInfo if only the plan is in its way.
  StatusOr<std::shared_ptr<Plan>> PlanBesideAnswer(const QueuedRequest& queued, int64_t answer_bytes, int num_threads,
                                                   const StopCheck& stop);
  // Of the rows that the requests get, as far as they are counted (ReserveLarge).
  int64_t AnswerBytes(const std::vector<const QueuedRequest*>& requests) const;
  // Sets what does not depend on the request.
  void Complete(PlanRequest* request) const;
  StatusOr<std::shared_ptr<Plan>> Build(const PlanRequest& request, bool evict, int64_t answer_bytes,
                                        const StopCheck& stop) const;
  void NoteUse(const PlanRequest& request, bool first_use) const;
  int PlanThreads(DeviceContext& context) const;
  // Checks the limits of `request`, which must outlive the result.
  StopCheck StopOf(const QueuedRequest& request) const;
  // OK while one of them is wanted.
  StopCheck StopOf(const std::vector<const QueuedRequest*>& requests) const;

  // When what happened in a run.
  struct RunTiming {
    MonotonicTime taken_up{}, planned{}, executed{};
  };
  using Answers = std::vector<StatusOr<InferenceResult>>;
  // One run over the union of what the requests, all for one stored graph, want.
  StatusOr<Answers> RunShared(const std::vector<const QueuedRequest*>& requests, DeviceContext& context);
  // Scores of links from rows that were kept.
  StatusOr<InferenceResult> RunKept(const QueuedRequest& request, DeviceContext& context) const;
  // One run over the batches of all requests.
  StatusOr<Answers> RunMerged(const std::vector<const QueuedRequest*>& requests, DeviceContext& context);
  // Runs `whole` for the rows `ids` (null: all), while one of the requests is wanted, and gives request i the rows
  // parts[i] (null: all).
  StatusOr<Answers> RunFor(const std::vector<const QueuedRequest*>& requests, const QueuedRequest& whole,
                           const std::vector<int64_t>* ids, const std::vector<const std::vector<int64_t>*>& parts,
                           DeviceContext& context);
  // The part of one request in a run for `run_requests`: the rows `ids`, or all if null. `run` has the plan's result.
  StatusOr<InferenceResult> AnswerOf(const QueuedRequest& request, const std::vector<int64_t>* ids, const Plan& plan,
                                     const ComputedRows& computed, RunParts run, const RunTiming& times,
                                     int64_t run_requests) const;

  // Brings the wanted rows to the host, as logits or ranked; the result's size is known.
  Status TakeRows(const QueuedRequest& request, const ComputedRows& computed, const WantedRows& wanted,
                  const RunParts& run, InferenceResult* result) const;
  // Scores of links from the plan's result, into `result`.
  Status TakeLinks(const QueuedRequest& request, const ComputedRows& computed, const WantedRows& wanted,
                   const RunParts& run, InferenceResult* result) const;
  // The rows of `request` in the plan's result, in the client's ids.
  static WantedRows WantedOf(const QueuedRequest& request, const std::vector<int64_t>* ids);

  const Parts parts_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_PLAN_RUNNER_H_
