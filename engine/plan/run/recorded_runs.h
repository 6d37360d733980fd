// SPDX-License-Identifier: Apache-2.0
// Full runs of a plan in a context that only launches (a GPU's). The kernels of a small plan take less time than their
// launches, so the launches are recorded once and replayed. The first run over a feature matrix is launched kernel by
// kernel (which also loads the kernels' code); later runs are replayed. A matrix gets a recording only at its second
// run, so that features of single requests, each at a new address, do not evict the recording of stored ones. Steps are
// timed on the device by events between them, in a separate recording: in the second run and rarely afterwards, because
// events cost time.
#ifndef VICINAL_ENGINE_PLAN_RUN_RECORDED_RUNS_H_
#define VICINAL_ENGINE_PLAN_RUN_RECORDED_RUNS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/plan/run/launch.h"

namespace vicinal::internal {

// The addresses of a run's inputs. Runs with equal addresses have launches with equal arguments.
struct FeatureAddress {
  const void* data = nullptr;
  const void* columns = nullptr;
  const void* rows = nullptr;
  int64_t entries = 0;
  const void* edges = nullptr;
  const void* edge_means = nullptr;

  static FeatureAddress Of(const RunInputs& inputs);
  friend bool operator==(const FeatureAddress&, const FeatureAddress&) = default;
};

class RecordedRuns {
 public:
  using Launches = std::vector<std::unique_ptr<Launch>>;

  // `launches` outlive it, and are bound to the full graph whenever this runs them.
  explicit RecordedRuns(const Launches* launches) : launches_(*launches) {
    entries_.reserve(kMaxRecordings);
    seen_once_.reserve(kMaxSeenOnce);
  }

  // Runs all launches, bound to `inputs`, and waits for them. Calls `stop` first, and between launches that are made
  // one by one. Counts every run; reports the times of timed runs. One caller at a time.
  Status Run(DeviceContext& context, const RunInputs& inputs, const StopCheck& stop, StatsSink& stats);

  // Runs all launches `count` times and waits once, at the end.
  Status RunQueued(DeviceContext& context, const RunInputs& inputs, int count);

  // Why runs are not recorded; empty while they are. Thread-safe.
  std::string refusal() const;

 private:
  // Maximum number of feature matrices with a recording: a stored one, and a few that requests repeat.
  static constexpr size_t kMaxRecordings = 4;
  // Maximum number of matrices that are remembered after one run.
  static constexpr size_t kMaxSeenOnce = 16;
  // Runs between two timed runs.
  static constexpr int64_t kTimedEvery = 1024;

  // Contexts that take turns: the executor's, and its context for small work.
  static constexpr size_t kMaxContexts = 2;

  // An address that has been run before, and the recording of each context that did.
  struct Entry {
    FeatureAddress address;
    std::vector<std::unique_ptr<Recording>> recordings;  // oldest first
  };

  // Null if `address` was not run recently. Creates the entry at the second run, evicting the least recently used one.
  Entry* Find(const FeatureAddress& address);
  // Launches one by one; if that succeeds, the next run over `address` gets an entry.
  Status RunFirst(DeviceContext& context, const FeatureAddress& address, const StopCheck& stop);
  Status LaunchAll(DeviceContext& context, DeviceTimer* timer) const;
  Status RunOneByOne(DeviceContext& context, const StopCheck& stop) const;
  Status RunTimed(DeviceContext& context, StatsSink& stats);
  // Launches an untimed run without waiting for it.
  Status Replay(DeviceContext& context, Entry* entry);
  // Null if the context cannot record; stores the reason.
  StatusOr<std::unique_ptr<Recording>> Record(DeviceContext& context, DeviceTimer* timer);
  void CountRuns() const;

  const Launches& launches_;
  std::vector<Entry> entries_;             // most recently used last
  std::vector<FeatureAddress> seen_once_;  // oldest first; none of them has an entry
  bool refused_ = false;
  int64_t untimed_runs_ = kTimedEvery;
  mutable Mutex mutex_;
  std::string refusal_ VICINAL_GUARDED_BY(mutex_);
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_RUN_RECORDED_RUNS_H_
