// SPDX-License-Identifier: Apache-2.0
// Tunes graphs in the background: what plans ask of a graph is measured on it, the most used first, and the winners go
// into its tuning table. One thread decides and waits; every measured run happens on the executor's thread, in a lease
// of its own that gives way to requests (execute/executor.h). A sample during which a request came, or the system took
// the processor away, is dropped.
//
// What it costs requests: one that comes during a run waits until the run stops, on a CPU before its loop's next task,
// on a GPU at its end. A run takes about kMaxRunSeconds at most (larger graphs are measured on a part of their rows),
// and all runs together the budget of each key, and the round that was under way when the budget ended.
#ifndef VICINAL_ENGINE_TUNING_TUNING_SERVICE_H_
#define VICINAL_ENGINE_TUNING_TUNING_SERVICE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mutex.h"
#include "engine/base/stats.h"
#include "engine/execute/executor.h"
#include "engine/prepared/prepared_graph.h"
#include "engine/tuning/tuning_session.h"

namespace vicinal {

// Thread-safe.
class TuningService {
 public:
  struct Parts : TuningTools {
    StatsSink* stats = nullptr;
    Logger* logger = nullptr;
    Nanoseconds budget_per_key{0};    // 0: nothing is tuned unless it is ordered
    Nanoseconds budget_per_graph{0};  // of what is not ordered
    // A graph's choices changed: plans built before are out of date.
    std::function<void()> on_change;
  };
  explicit TuningService(Parts parts);
  // REQUIRES: Stop() was called, if Start() was.
  ~TuningService();

  const Parts& parts() const { return parts_; }

  // Begins to work. `executor` must outlive Stop().
  void Start(Executor* executor);
  // Gives up what is under way (a lease that runs is waited for) and refuses what is ordered. Idempotent.
  void Stop();

  // Plans of `graph` were built: what they asked for may be tuned. Quick.
  void Consider(const std::shared_ptr<const PreparedGraph>& graph);

  // Tunes `works` of a graph before anything else, each within `budget`, and waits until that is done (OK), `limits`
  // end the wait (their status; what was ordered goes on) or the service stops (UNAVAILABLE). Without `wait`: returns
  // at once. The keys must be known to the graph's table.
  Status Order(const std::shared_ptr<const PreparedGraph>& graph, const std::vector<TuningWork>& works,
               Nanoseconds budget, bool wait, const WorkLimits& limits);

 private:
  struct Job : TuningJob {
    bool ended = false;
  };

  using Graphs = std::vector<std::shared_ptr<const PreparedGraph>>;

  void Loop();
  // Null when the service stops.
  std::shared_ptr<Job> AwaitJob();
  // Null where there is nothing to do. Graphs that were looked at are added to `held`, whose last holder that may be:
  // to be let go of without the mutex, as freeing one takes long.
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
  bool idle_ VICINAL_GUARDED_BY(mutex_) = false;  // nothing came since there was nothing to do
  std::thread thread_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNING_TUNING_SERVICE_H_
