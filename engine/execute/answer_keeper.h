// SPDX-License-Identifier: Apache-2.0
// Decides whose answers are kept, has them computed in the background, and answers requests from them.
//
// Queries of a key (AnswerKey) pay one by one until together they have cost as much as one pass over all nodes. Then a
// pass is run and its rows are kept: at most twice the cost of the better choice, whatever follows (ski rental). The
// pass waits for idle time and gives way to requests, but only as long as the queries themselves took; then it takes
// its turn, because under constant load idle time never comes. Passes that come to nothing are tried again ever more
// rarely (answer_tally.h).
//
// After tuning, kept rows serve on under their own numerics revision until a pass of the new plan takes their place; on
// a CPU the new plan has the same revision, and nothing is run.
#ifndef VICINAL_ENGINE_EXECUTE_ANSWER_KEEPER_H_
#define VICINAL_ENGINE_EXECUTE_ANSWER_KEEPER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

#include "engine/api/requests.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mutex.h"
#include "engine/base/stats.h"
#include "engine/execute/answer_cache.h"
#include "engine/execute/answer_tally.h"
#include "engine/execute/executor.h"
#include "engine/execute/plan_runner.h"

namespace vicinal {

// The rows of a pass as they are kept.
std::shared_ptr<const KeptAnswers> KeptAnswersOf(PlanRunner::AllRows all);
// A pass that gives way: CANCELLED, as StopCheck says it.
Status PassInterrupted();
// Whether a pass failed for want of memory.
bool PassRefused(const Status& status);

// Thread-safe.
class AnswerKeeper {
 public:
  struct Parts {
    KeepAnswers mode = KeepAnswers::kNever;
    AnswerCache* cache = nullptr;
    PlanRunner* runner = nullptr;
    MemoryBudget* budget = nullptr;
    const Clock* clock = nullptr;
    StatsSink* stats = nullptr;
    Logger* logger = nullptr;
    std::function<void(std::function<void()> job)> run_elsewhere;  // EngineOptions::run_elsewhere
  };
  // All parts must outlive the keeper, and the keeper the executor.
  explicit AnswerKeeper(Parts parts) : parts_(std::move(parts)) {}
  // Before the first request.
  void Start(Executor* executor) { executor_ = executor; }

  // Answers the request if its answers are kept: with OK, `done` was called or will be, and the request is used up;
  // with another status (CANCELLED, DEADLINE_EXCEEDED, DRAINING) it is never called. nullopt: the request must be
  // computed.
  std::optional<Status> Answer(QueuedRequest* request);

  // For PlanRunner::Parts::on_run: a request was computed at `share` of the cost of a full pass, in `seconds`.
  void Computed(const QueuedRequest& request, double share, double seconds);

 private:
  struct Pass;

  // Null: not kept, or the request must be computed.
  KeptAnswersHandle Find(const QueuedRequest& request);
  void Deliver(const QueuedRequest& request, const KeptAnswers& kept) const;
  // Unless a pass is ordered already, or waits to be tried again. `seconds`: how long it waits for idle time.
  void Order(const AnswerKey& key, const QueuedRequest& request, double seconds);
  void Submit(std::shared_ptr<Pass> pass);
  void Run(const std::shared_ptr<Pass>& pass, const Status& admitted, DeviceContext& context, const Lease& lease);
  // Runs the pass and keeps its rows. Returns the outcome for the statistics.
  StatusOr<const char*> Keep(const Pass& pass, DeviceContext& context, const StopCheck& stop);
  // The pass came to an end: its rows are kept, or came to nothing after `seconds`.
  void End(const Pass& pass, bool kept, double seconds);
  // Whether the pass stays ordered.
  bool Interrupted(Pass* pass, double seconds);

  const Parts parts_;
  Executor* executor_ = nullptr;
  Mutex mutex_;
  std::unordered_map<AnswerKey, AnswerTally, absl::Hash<AnswerKey>> tallies_ VICINAL_GUARDED_BY(mutex_);
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_ANSWER_KEEPER_H_
