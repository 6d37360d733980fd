// SPDX-License-Identifier: Apache-2.0
// Keeps in the state directory what the stores publish, and brings it back after a start.
//
// Serving does not wait for the disk: a version serves once the stores have it, and one thread writes versions in the
// order in which they were published. A version that is replaced or deleted before it was written is skipped; one that
// finds no space, or a directory that cannot be written, is tried again. Versions
// that a durable one replaced are removed from disk a while later: whoever copies the directory finds one of them.
#ifndef VICINAL_ENGINE_DURABLE_DURABLE_STORE_H_
#define VICINAL_ENGINE_DURABLE_DURABLE_STORE_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/api/resources.h"
#include "engine/api/uploaded_version.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "engine/base/work_limits.h"
#include "engine/device/device.h"
#include "engine/device/host_threads.h"
#include "engine/durable/graph_codec.h"
#include "engine/durable/graph_loader.h"
#include "engine/durable/layout_keeper.h"
#include "engine/durable/model_codec.h"
#include "engine/durable/tuning_keeper.h"
#include "engine/memory/memory_budget.h"
#include "engine/state/state_directory.h"
#include "engine/store/graph_store.h"
#include "engine/store/model_store.h"

namespace vicinal::durable {

// Thread-safe, unless it says otherwise.
class DurableStore {
 public:
  // All must outlive the object.
  struct Parts {
    state::StateDirectory* directory = nullptr;
    GraphStore* graphs = nullptr;
    ModelStore* models = nullptr;
    Device* device = nullptr;
    MemoryBudget* budget = nullptr;
    Logger* logger = nullptr;
    std::function<void()> on_load;  // a graph was loaded
    // Files of removed versions are deleted so often, at the start too; 0: never.
    std::chrono::seconds sweep_period{0};
    const Clock* clock = &Clock::Real();  // of how long versions have been replaced
    TuningKeeper* tuning = nullptr;       // null: tuning decisions are not kept
    StatsSink* stats = &StatsSink::Null();
    int num_loaders = 1;         // graphs that are loaded at once
    int64_t max_waiting = 1024;  // requests that wait for graphs on disk
    // Another server writes the directory; this one follows it, and nothing may be published or removed here.
    bool read_only = false;
    std::chrono::milliseconds follow_period{0};  // 0: only when Follow is called
    // How long to wait before versions that found no space are written again; each time twice as long, up to twelve
    // times. 0: only when Retry is called.
    std::chrono::milliseconds retry_period{0};
    LayoutKeeper* layouts = nullptr;  // null: layouts are not kept
    // As in GraphLoader::Parts; neither is called after loader().Stop().
    std::function<void(const std::shared_ptr<const PreparedGraph>& graph, const std::vector<FeatureSet>& feature_sets)>
        before_serving = {};
    std::function<void(const std::string& name, const StopCheck& stop)> after_start = {};
    // A read replica: the writer's version of a graph with these feature sets, of feature sets of a graph that serves,
    // or of a model is in memory and about to serve in place of an earlier one. `stop`: it need not wait any longer.
    // Not called after StopFollowing. May be empty.
    std::function<void(const std::shared_ptr<const PreparedGraph>& graph, const std::vector<FeatureSet>& feature_sets,
                       const StopCheck& stop)>
        before_following_graph = {};
    std::function<void(const std::string& name, const std::shared_ptr<const Model>& model, const StopCheck& stop)>
        before_following_model = {};
  };
  // That one step of Follow waits, in all, for what is made before versions serve.
  static constexpr std::chrono::seconds kLongestWait{10};
  explicit DurableStore(Parts parts);
  // Ends what is being written, which then stays what a crash would leave, and waits for the threads.
  ~DurableStore();
  DurableStore(const DurableStore&) = delete;
  DurableStore& operator=(const DurableStore&) = delete;

  // Once, before anything is published: loads the models, claims the names of all stored graphs in their store, and
  // begins to load these, the most recently used first. Each serves as soon as it is there. What cannot be loaded is
  // logged and affects nothing else; damaged versions go to quarantine, and an earlier one serves if there is one. An
  // error means that the directory cannot be listed.
  Status Load();
  // False while graphs are being loaded.
  bool loaded() const { return loader_.loaded(); }
  // For requests that need a graph which is on disk only.
  GraphLoader& loader() { return loader_; }

  // --- what the stores have published ---
  void GraphPublished(const std::string& name);
  void FeaturesPublished(const FeatureSetHandle& set);
  void ModelPublished(const ModelHandle& model, std::shared_ptr<const ModelDocument> document);

  // --- deletions: durable when these return OK. The stores must have deleted the resource already. NOT_FOUND: it is
  // not on disk either. After another error it may come back at the next start: the call has to be repeated. ---
  // `version`: that one and those that it replaced; 0: all.
  Status RemoveGraph(const std::string& name, int64_t version);
  Status RemoveFeatures(const std::string& graph, const std::string& name, FeatureKind kind, int64_t version);
  Status RemoveModel(const std::string& name, int64_t version);

  // Adds how durable the versions in `resource` are.
  void Describe(GraphResource* resource) const;
  void Describe(ModelResource* resource) const;
  void Describe(FeatureSetResource* resource) const;

  // Whether that version is on disk: of a graph also its feature set `default`, which may have come along; of a feature
  // set also its graph. An error: it could not be written, and why.
  StatusOr<bool> IsDurable(const UploadedVersion& version) const;

  // Waits until all that was published is written, has failed or was skipped. False: `deadline` (of the real clock)
  // came first, or `hurry` returned an error.
  bool Flush(MonotonicTime deadline, const StopCheck& hurry = {});

  // Writes again, as soon as the writer comes to it, what could not be written for a reason that can pass.
  void Retry();
  // RESOURCE_EXHAUSTED (STATE_DISK_FULL) while versions wait for space, unless `bytes` more surely fit beside what is
  // being written: what is too large for the disk must not keep smaller uploads out.
  Status CheckSpace(int64_t bytes) const;

  struct WriteState {
    int64_t not_durable = 0;  // versions that could not be written, and serve from memory
    WallTime last_write{};    // when a version was last written; the epoch: never in this process
  };
  WriteState write_state() const;
  // Bytes that published versions take on disk.
  StoredBytes on_disk() const;

  // A read replica: takes over what the writer has published or removed since. Each new version is loaded first and
  // then takes the place of the former one in one step. What cannot be loaded now is tried again the next time.
  void Follow();
  // Ends the thread that follows, if there is one.
  void StopFollowing();
  // Not OK once the directory is another one: it was restored from a copy, and versions mean something else.
  Status health() const;

  // What happens every sweep_period: removes versions that were replaced a minute ago, deletes the files of versions
  // that were removed, and keeps the order in which graphs were used, and in which defaults add.
  void Sweep();

 private:
  struct Job {
    state::VersionId id;
    std::function<void()> write;
    int64_t bytes = 0;  // that it writes, at most
  };
  struct Failure {
    Status why;
    int64_t bytes = 0;  // of the job that failed
  };
  enum class Step { kWrite, kSweep, kEnd };
  using IdFilter = std::function<bool(const state::VersionId& id)>;

  void Queue(state::VersionId id, int64_t bytes, std::function<void()> write);
  // `id` is on disk now, or takes another place there.
  void NotePublished(const state::VersionId& id);
  // What the writer does next; waits until there is something, or until `sweep`.
  Step NextStep(MonotonicTime sweep, Job* job);
  void WriteLoop();
  // After `job` was run: if it failed, and can succeed later, it waits.
  void KeepIfItCanPass(Job job);
  void RetryAll() VICINAL_REQUIRES(mutex_);
  void FollowLoop();
  Status CheckFollowed();
  void NoteLook(const Status& looked);
  // health() says so from now on.
  void EndBecause(const std::string& change);
  // `sets`: the latest feature sets of that version.
  void FollowGraph(const state::VersionId& latest, const std::map<FeatureSetKey, state::VersionId>& sets,
                   ThreadPool* pool);
  void FollowFeatures(const GraphStatus& status, const std::map<FeatureSetKey, state::VersionId>& sets,
                      ThreadPool* pool);
  void FollowModel(const state::VersionId& latest);
  // Not OK: what is made before versions serve has had its time in this step, or the server stops.
  Status MayWait() const;
  GraphLoader::BeforeAdopted BeforeFollowing() const;
  void CannotFollow(const state::VersionId& id, const Status& error);
  // Keeps the order of use for the next start.
  void WriteRecent();
  // Keeps what TuningKeeper::KeepDefaults does, of all graphs in memory.
  void KeepDefaults();
  // Removes the versions that were found replaced `age` ago. Those found now are noted.
  void RemoveReplaced(std::chrono::seconds age);
  // The latest of these versions of one model, which rise, that is not damaged.
  void LoadLatestModel(const std::vector<state::Manifest>& versions);
  // `before` is called with the model before it serves.
  Status LoadModel(const state::Manifest& manifest, const std::function<void(const StoredModel& model)>& before = {});
  // Logs `error`; what is damaged is moved aside. Returns what requests are told.
  Status CannotLoad(const state::VersionId& id, const Status& error);
  // Requests for graphs and models that were lost, and of which nothing is `published`, get DATA_LOSS.
  void RecallLost(const std::set<state::VersionId>& published);
  void ForgetReplaced(const std::set<state::VersionId>& published);
  void FollowLost(const std::vector<state::LostVersion>& lost);

  void Write(const std::shared_ptr<const PreparedGraph>& graph);  // with the feature sets that it has
  // `graph` is on disk, and serves or is about to: its layouts are stored, now and whenever it has made one.
  void StoreLayouts(const std::shared_ptr<const PreparedGraph>& graph);
  bool IsPublished(const state::VersionId& id) const;
  // Why it could not be written; OK: it was, or was not tried.
  Status FailureOf(const state::VersionId& id) const;
  // Before a version is written again: what the last try has left goes.
  Status DiscardFailed(const state::VersionId& id);
  void Count(const Status& error) const;  // for metrics
  void Write(const FeatureSetHandle& set, int64_t graph_version);
  void Write(const ModelHandle& model, const ModelDocument& document);
  // Records the outcome of writing `id`, which the job now running did; logs a failure, the first of its kind.
  void Finish(const state::VersionId& id, const Status& written);
  // Those of versions that are queued or being written, and have not failed.
  int64_t QueuedBytes() const VICINAL_REQUIRES(mutex_);
  // The highest version that goes with `id`; 0: none; all if its version is 0.
  int64_t LastToRemove(const IdFilter& is_of_name, int64_t version) const;
  // Removes published versions from disk, once none of them is being written, and forgets those that were lost.
  Status Remove(const IdFilter& is_written_with, const IdFilter& is_deleted, const IdFilter& is_of_name,
                const char* type, const std::string& name);
  // OK also if it is not there.
  Status RemoveFromDisk(const state::VersionId& id);
  // Fills durability and durability_error of any resource.
  template <class Resource>
  void DescribeVersion(const state::VersionId& id, Resource* resource) const;
  // The ids that have to be on disk for `version` to be durable.
  std::vector<state::VersionId> IdsOf(const UploadedVersion& version) const;
  bool stopping() const;

  const Parts parts_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Job> jobs_ VICINAL_GUARDED_BY(mutex_);
  std::deque<Job> waiting_ VICINAL_GUARDED_BY(mutex_);  // have failed and are to be tried again
  MonotonicTime retry_at_ VICINAL_GUARDED_BY(mutex_) = MonotonicTime::max();
  std::chrono::milliseconds retry_wait_ VICINAL_GUARDED_BY(mutex_){0};  // the last one; 0: something was written since
  WallTime last_write_ VICINAL_GUARDED_BY(mutex_){};
  std::optional<state::VersionId> writing_ VICINAL_GUARDED_BY(mutex_);
  int64_t writing_bytes_ VICINAL_GUARDED_BY(mutex_) = 0;  // of its job
  bool stopping_ VICINAL_GUARDED_BY(mutex_) = false;
  std::set<state::VersionId> published_ VICINAL_GUARDED_BY(mutex_);  // on disk
  std::set<state::VersionId> unread_ VICINAL_GUARDED_BY(mutex_);     // on disk too, but the start could not read them
  std::map<state::VersionId, int64_t> disk_bytes_ VICINAL_GUARDED_BY(mutex_);  // of published_, as far as known
  std::map<state::VersionId, Failure> failures_ VICINAL_GUARDED_BY(mutex_);    // of versions that stay in memory
  std::vector<std::string> recent_ VICINAL_GUARDED_BY(mutex_);  // graphs, the most recently used first: as on disk
  std::map<state::VersionId, MonotonicTime> replaced_ VICINAL_GUARDED_BY(mutex_);  // published ones: since when
  std::map<state::VersionId, Status> not_followed_ VICINAL_GUARDED_BY(mutex_);     // logged already
  MonotonicTime follow_until_{};                   // used by Follow only: when nothing is waited for any more
  std::vector<state::LostVersion> followed_lost_;  // used by Follow only: what it told last
  Status last_look_;                               // likewise: why it could not read the directory
  Status health_ VICINAL_GUARDED_BY(mutex_);
  std::unique_ptr<DeviceContext> follow_context_;  // used by Follow only
  std::optional<HostThreads> follow_threads_;      // likewise
  GraphLoader loader_;
  std::thread writer_;
};

}  // namespace vicinal::durable

#endif  // VICINAL_ENGINE_DURABLE_DURABLE_STORE_H_
