// SPDX-License-Identifier: Apache-2.0
// Tunes graphs in the background: measures the kinds of work that plans need on the graph, the most used first, and
// puts the winners into its tuning table. The service's thread decides and waits; each measured run has its own lease
// of the executor's thread and yields to requests (execute/executor.h). A sample is dropped if a request arrived or the
// process was descheduled during the run.
//
// Cost for requests: a request that arrives during a run waits until the run stops: on a CPU before the loop's next
// task, on a GPU at the end of the run. A run takes at most about kMaxRunSeconds (larger graphs are measured on a part
// of their rows). All runs of a key together take its budget, plus the rest of the round in which the budget ended.
#ifndef VICINAL_ENGINE_TUNING_TUNING_SERVICE_H_
#define VICINAL_ENGINE_TUNING_TUNING_SERVICE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mutex.h"
#include "engine/base/stats.h"
#include "engine/execute/executor.h"
#include "engine/prepared/prepared_graph.h"
#include "engine/tune/seeds.h"
#include "engine/tuning/tuning_session.h"

namespace vicinal {

// Thread-safe.
class TuningService {
 public:
  struct Parts : TuningTools {
    StatsSink* stats = nullptr;
    Logger* logger = nullptr;
    Nanoseconds budget_per_key{0};    // 0: only ordered works are tuned
    Nanoseconds budget_per_graph{0};  // for background tuning; orders do not count
    // Called after a graph's choices changed: plans built before are out of date.
    std::function<void()> on_change;
    // Applies a change to the graph's table; whoever keeps decisions does that first. Returns whether new plans get
    // another setting. Empty: only applies it.
    std::function<StatusOr<bool>(const PreparedGraph& graph, const TuningChange& change)> change;
    std::string device_kind;       // what decisions hold for, as text
    SeedLibrary* seeds = nullptr;  // learns what is measured; may be null
  };
  explicit TuningService(Parts parts);
  // REQUIRES: Stop() was called, if Start() was.
  ~TuningService();

  const Parts& parts() const { return parts_; }

  // As Parts::change. Remembers measured choices in Parts::seeds.
  StatusOr<bool> Change(const PreparedGraph& graph, const TuningChange& change);

  // Starts the thread. `executor` must live until Stop() returns.
  void Start(Executor* executor);
  // Abandons the current job after its running lease, and fails waiting and later orders. Idempotent.
  void Stop();

  // A plan of `graph` was built: the works it needs may be tuned. Quick.
  void Consider(const std::shared_ptr<const PreparedGraph>& graph);

  // Queues `works` of a graph before all background tuning, each with `budget` and `strategy` (TuningJob). With `wait`,
  // blocks until they are done (OK), `limits` end the wait (their status; the works stay queued) or the service stops
  // (UNAVAILABLE). Without `wait`, returns at once. RESOURCE_EXHAUSTED (TUNING_QUEUE_FULL). REQUIRES: the graph's table
  // has the keys.
  Status Order(const std::shared_ptr<const PreparedGraph>& graph, const std::vector<TuningWork>& works,
               Nanoseconds budget, std::optional<TuningStrategy> strategy, bool wait, const WorkLimits& limits);

 private:
  struct Job : TuningJob {
    bool ended = false;
  };

  using Graphs = std::vector<std::shared_ptr<const PreparedGraph>>;

  void Loop();
  // Null when the service stops.
  std::shared_ptr<Job> AwaitJob();
  // Null if there is nothing to do. Adds the graphs it examined to `held`, which may be their last owner: the caller
  // releases them without the mutex, because freeing a graph takes long.
  std::shared_ptr<Job> NextJob(Graphs* held) VICINAL_REQUIRES(mutex_);
  std::shared_ptr<Job> MostWanted(Graphs* held) VICINAL_REQUIRES(mutex_);
  void Tune(const Job& job);
  bool stopping() const;

  const Parts parts_;
  Executor* executor_ = nullptr;
  mutable Mutex mutex_;
  CondVar came_, ended_;
  std::deque<std::shared_ptr<Job>> ordered_ VICINAL_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<const PreparedGraph>> graphs_ VICINAL_GUARDED_BY(mutex_);
  bool stopping_ VICINAL_GUARDED_BY(mutex_) = false;
  bool idle_ VICINAL_GUARDED_BY(mutex_) = false;  // no new work since NextJob returned null
  std::thread thread_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNING_TUNING_SERVICE_H_
