// SPDX-License-Identifier: Apache-2.0
// Keeps the tuning decisions of graph versions in the state directory, beside each version (docs/state.md, "Tuning").
//
// A plan's numerics revision depends on decisions: those behind a revision that clients may have seen while the graph
// was DURABLE must come back with it. Therefore
//   - the decisions so far are written before the version's manifest is (Attach), and
//   - a decision with which plans add in another order is durable before any plan uses it (Change).
// Decisions that change no bits serve even if they could not be written; the next write has them again.
#ifndef VICINAL_ENGINE_DURABLE_TUNING_KEEPER_H_
#define VICINAL_ENGINE_DURABLE_TUNING_KEEPER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/log.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "engine/device/device.h"
#include "engine/durable/tuning_document.h"
#include "engine/kernels/registry.h"
#include "engine/prepared/prepared_graph.h"
#include "engine/state/state_directory.h"
#include "engine/tune/first_runs.h"
#include "engine/tune/table.h"

namespace vicinal::durable {

// Thread-safe.
class TuningKeeper {
 public:
  // All must outlive the object.
  struct Parts {
    state::StateDirectory* directory = nullptr;
    const KernelRegistry* registry = nullptr;
    DeviceKind kind = DeviceKind::kCpu;
    // The kind of processor or GPU: decisions of others are left as they are, and do not serve.
    std::string device;
    Logger* logger = nullptr;
    std::function<void(const PreparedGraph& graph)> on_restore = {};  // decisions were restored; may be empty
    const FirstRuns* first_runs = nullptr;  // choices that it has quarantined do not serve; may be null
    bool read_only = false;                 // of a directory that another server writes: nothing is written
  };
  explicit TuningKeeper(Parts parts) : parts_(std::move(parts)) {}

  // Writes what has been decided on `graph`, whose version has been begun in the directory; from then on Change writes,
  // too. An error means that the version must not be published.
  Status Attach(const PreparedGraph& graph);
  // Ends that: the version was removed, or its publication failed.
  void Detach(const std::string& graph, int64_t version);
  // A read replica: the same for all versions that are not among these.
  void DetachAllBut(const std::set<state::VersionId>& published);

  // Before a graph from disk serves: puts the kept decisions into its table, and attaches it. Never fails: what is
  // damaged, or means something else in this build, is logged and measured again; the default serves meanwhile, under
  // the numerics revision of its own order.
  void Restore(const PreparedGraph& graph);

  // Remembers in which order plans add that use defaults, so that a build whose defaults add in another one can tell.
  // Writes if that has changed since the last time; an error is logged, and the next call tries again.
  void KeepDefaults(const PreparedGraph& graph);

  // `configuration` was quarantined: where it was chosen the default serves, durably, under the numerics revision of
  // its own order. Returns whether new plans get another setting.
  bool Withdraw(const PreparedGraph& graph, const std::string& configuration);

  // Of a directory that another server writes: restores the decisions again if they have changed since. Returns whether
  // they have.
  bool Refresh(const PreparedGraph& graph);

  // Applies `change` to the graph's table; if the graph is attached, the decisions are written first. Returns whether
  // new plans get another setting. Errors are those of the file system; nothing is applied then.
  StatusOr<bool> Change(const PreparedGraph& graph, const TuningChange& change);

 private:
  using Version = std::pair<std::string, int64_t>;

  Status Write(const PreparedGraph& graph, const std::vector<TuningEntry>& entries) VICINAL_REQUIRES(mutex_);
  // The work that plans of `graph` know, or knew before the start, and that is not among `entries`.
  std::vector<DefaultWork> DefaultsOf(const PreparedGraph& graph, const std::vector<TuningEntry>& entries) const
      VICINAL_REQUIRES(mutex_);
  // Tells of those that this build adds in another order, and takes this build's. Returns whether there are any.
  bool CompareDefaults(const PreparedGraph& graph, std::vector<DefaultWork>* defaults) const;
  bool ChangesBits(const PreparedGraph& graph, const TuningChange& change) const;
  // The entry for this build and device.
  StatusOr<TuningEntry> UsableHere(const PreparedGraph& graph, const KeptRecord& kept) const;
  // Returns how many records could not be used.
  int64_t Adopt(const PreparedGraph& graph, const TuningDocument& document) const;
  void LogDropped(const PreparedGraph& graph, const Status& error) const;

  const Parts parts_;
  // Held while a document is written and its decisions are applied: their order is the same on disk and in memory.
  mutable Mutex mutex_;
  std::set<Version> attached_ VICINAL_GUARDED_BY(mutex_);
  std::map<Version, std::vector<DefaultWork>> kept_defaults_ VICINAL_GUARDED_BY(mutex_);  // as in the document
  std::map<Version, std::string> seen_ VICINAL_GUARDED_BY(mutex_);  // documents that Refresh has read
};

}  // namespace vicinal::durable

#endif  // VICINAL_ENGINE_DURABLE_TUNING_KEEPER_H_
