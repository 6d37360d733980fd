// SPDX-License-Identifier: Apache-2.0
// Brings graphs from disk into memory, and to the device those that have left it: those of the start, the most recently
// used first, and before them those that requests wait for. Each is loaded once at a time, whoever asks for it.
#ifndef VICINAL_ENGINE_DURABLE_GRAPH_LOADER_H_
#define VICINAL_ENGINE_DURABLE_GRAPH_LOADER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mutex.h"
#include "engine/base/stats.h"
#include "engine/base/status.h"
#include "engine/base/work_limits.h"
#include "engine/device/device.h"
#include "engine/durable/layout_keeper.h"
#include "engine/durable/tuning_keeper.h"
#include "engine/memory/memory_budget.h"
#include "engine/state/state_directory.h"
#include "engine/store/graph_store.h"

namespace vicinal::durable {

// A graph version with its feature sets, as manifests describe them.
StoredGraph DescribeStored(const state::Manifest& graph, const std::vector<state::Manifest>& sets);
// The same of what StateDirectory::ListGraph has listed. REQUIRES: the graph's manifest can be read.
StoredGraph DescribeStored(const state::Listing& listing);
// One whose manifest cannot be read: loading it will say why.
StoredGraph DescribeUnread(const state::VersionId& graph);

// Thread-safe.
class GraphLoader {
 public:
  using Done = std::function<void(const Status& loaded)>;

  // All must outlive the object.
  struct Parts {
    const state::StateDirectory* directory = nullptr;  // null: all graphs have copies on the host
    GraphStore* graphs = nullptr;
    Device* device = nullptr;
    MemoryBudget* budget = nullptr;
    Logger* logger = nullptr;
    StatsSink* stats = &StatsSink::Null();
    TuningKeeper* tuning = nullptr;  // null: tuning decisions are not kept
    std::function<void()> on_load;   // a graph was loaded
    // A version cannot be read, and why. Returns what requests are told.
    std::function<Status(const state::VersionId& id, const Status& error)> on_failure;
    bool read_only = false;           // another server writes the directory: what is missing was removed there
    int num_threads = 1;              // graphs that are loaded at once
    int64_t max_waiting = 1024;       // callers that wait for graphs
    LayoutKeeper* layouts = nullptr;  // null: layouts are not kept
    // A graph is in memory, with its stored layouts, and is about to serve; may be empty.
    std::function<void(const std::shared_ptr<const PreparedGraph>& graph)> on_graph = {};
    // The same of a graph that was read for a caller of Load. May be empty.
    std::function<void(const std::shared_ptr<const PreparedGraph>& graph, const std::vector<FeatureSet>& feature_sets)>
        before_serving = {};
    // A graph that LoadAll has loaded serves. Called for one graph at a time, once none of LoadAll is left to be loaded
    // and when no request waits for a graph. `stop`: the loader is stopping. May be empty.
    std::function<void(const std::string& name, const StopCheck& stop)> after_start = {};
    const Clock* clock = &Clock::Real();  // of the limits of those who wait
  };
  explicit GraphLoader(Parts parts);
  ~GraphLoader();
  GraphLoader(const GraphLoader&) = delete;
  GraphLoader& operator=(const GraphLoader&) = delete;

  // Loads the versions on disk of these names, in that order, as far as they fit in the memory budget without evicting
  // anything. Once.
  void LoadAll(const std::vector<std::string>& names);
  // False while LoadAll goes on.
  bool loaded() const;

  // Loads the version of `name` that has to be loaded (GraphStore::StoredVersion). What was used least recently is
  // evicted if need be. `done` is called once, on a thread of the loader or of a later caller, and must not wait for
  // other loads: with OK if nothing of that name has to be loaded any more; else with the reason, which is that of
  // `limits` if these ended the wait before the load began, or while others needed its place. What nobody waits for any
  // more is not loaded. An error of the call means that `done` is never called: UNAVAILABLE (QUEUE_FULL, DRAINING).
  Status Load(const std::string& name, const WorkLimits& limits, Done done);
  // The same, and waits. CANCELLED, DEADLINE_EXCEEDED: the load goes on.
  Status LoadAndWait(const std::string& name, const WorkLimits& limits, const Clock& clock);

  // Called before versions serve in place of earlier ones: the graph, and which of its feature sets.
  using BeforeAdopted = std::function<void(const std::shared_ptr<const PreparedGraph>& graph,
                                           const std::vector<FeatureSet>& feature_sets)>;
  // Loads what another server has published and puts it in place of earlier versions, on the calling thread.
  Status Adopt(const state::VersionId& id, ThreadPool* pool, const BeforeAdopted& before);
  Status AdoptFeatures(const state::Manifest& manifest, const std::shared_ptr<const PreparedGraph>& graph,
                       ThreadPool* pool, const BeforeAdopted& before);

  // Answers those who wait with UNAVAILABLE (DRAINING), and ends the threads once the loads that run have ended.
  void Stop();

 private:
  struct Waiter {
    Done done;
    WorkLimits limits;
  };
  // Who does not wait any more, and why.
  using Ended = std::vector<std::pair<Done, Status>>;
  struct Task {
    std::vector<Waiter> waiters;
    bool at_start = false;  // of LoadAll
    bool running = false;
  };
  // What a thread does next.
  struct Job {
    std::string name;
    bool evict = false;        // what is in memory may be evicted for it
    bool after_start = false;  // it serves already: Parts::after_start
  };
  struct Loaded {
    std::shared_ptr<const PreparedGraph> graph;
    std::vector<FeatureSet> feature_sets;
    std::map<FeatureSetKey, Status> lost;  // feature sets that cannot be read
  };

  void Loop();
  // Waits for it. None: the loader stops.
  std::optional<Job> WaitForJob();
  std::optional<Job> Next(Ended* ended) VICINAL_REQUIRES(mutex_);
  void RunLoad(const Job& job, ThreadPool* pool);
  void RunAfterStart(const Job& job);
  // Takes those out of the task whose limits have ended their wait.
  void TakeEnded(Task* task, Ended* ended) VICINAL_REQUIRES(mutex_);
  // Reads a version and publishes it with all feature sets that the store knows of by then.
  StatusOr<std::shared_ptr<const PreparedGraph>> LoadFromDisk(const state::VersionId& id, bool evict, ThreadPool* pool);
  // False: the store knows of feature sets that are not in `loaded`.
  bool Publish(const state::VersionId& id, bool evict, const Loaded& loaded);
  // Tells the store what is on disk now, and adds to `loaded` the feature sets that came after it was listed. Returns
  // what it has told.
  StatusOr<StoredGraph> ReadNewSets(const state::VersionId& id, bool evict, ThreadPool* pool, Loaded* loaded);
  // Versions of one feature set, which rise: adds the latest that can be read, in place of an earlier one, and why a
  // later one cannot.
  Status ReadLatestSet(const std::vector<const state::Manifest*>& versions, Reservation* memory, ThreadPool* pool,
                       Loaded* loaded);
  Status AddLostBefore(const state::VersionId& graph, Loaded* loaded) const;
  // `graph`: what was loaded or came back; null if nothing was.
  Status LoadNow(const std::string& name, bool evict, ThreadPool* pool, std::shared_ptr<const PreparedGraph>* graph);
  // A version that is on the host goes to the device again; or does not, if that copy does not count any more.
  Status Return(const std::string& name, int64_t version, HostCopy& copy, bool evict);
  StatusOr<std::vector<FeatureSet>> ReturnNow(HostCopy& copy, bool evict);
  StatusOr<Loaded> Read(const state::VersionId& id, bool evict, ThreadPool* pool);
  // A thread that restores the stored layouts of `graph`, which must outlive it; none if there are none.
  std::jthread RestoreLayouts(const PreparedGraph& graph, bool evict) const;
  StatusOr<FeatureSet> ReadSet(const state::Manifest& manifest, const PreparedGraph& graph, Reservation* memory,
                               ThreadPool* pool);
  Status Explained(const state::VersionId& id, const Status& error) const;
  // The latest published version before `id`.
  StatusOr<StoredGraph> Earlier(const state::VersionId& id) const;

  const Parts parts_;
  // Held from before_serving to on_load, which drops what was made for graphs that do not serve; mutex_ is not taken
  // meanwhile.
  Mutex serving_mutex_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::map<std::string, Task> tasks_ VICINAL_GUARDED_BY(mutex_);
  // Names of tasks, which may have ended meanwhile.
  std::deque<std::string> urgent_ VICINAL_GUARDED_BY(mutex_);
  std::deque<std::string> at_start_ VICINAL_GUARDED_BY(mutex_);
  // Those of the start that serve, for Parts::after_start; one thread calls it at a time.
  std::deque<std::string> after_start_ VICINAL_GUARDED_BY(mutex_);
  bool after_start_runs_ VICINAL_GUARDED_BY(mutex_) = false;
  int64_t waiting_ VICINAL_GUARDED_BY(mutex_) = 0;
  int64_t starting_ VICINAL_GUARDED_BY(mutex_) = 0;  // tasks of LoadAll that have not ended
  bool stopping_ VICINAL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace vicinal::durable

#endif  // VICINAL_ENGINE_DURABLE_GRAPH_LOADER_H_
