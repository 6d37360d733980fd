// SPDX-License-Identifier: Apache-2.0
// A read replica: what another server writes serves here, too.
#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/durable/durable_store.h"
#include "engine/durable/failures.h"
#include "engine/durable/version_ids.h"
#include "engine/state/names.h"

namespace vicinal::durable {
namespace {

using state::Manifest;
using state::Store;
using state::VersionId;

using LatestByName = std::map<std::string, VersionId>;

// The latest versions: of graphs and models, and of the feature sets of each graph version.
struct Latest {
  LatestByName graphs, models;
  std::map<VersionId, std::map<FeatureSetKey, VersionId>> sets;
};

Latest LatestOf(const std::set<VersionId>& published) {
  Latest latest;
  const auto keep = [](const auto& name, const VersionId& id, auto* names) {
    const auto [known, is_new] = names->try_emplace(name, id);
    if (!is_new && known->second.version < id.version) known->second = id;
  };
  for (const VersionId& id : published) {
    if (id.store == Store::kGraphs) keep(id.name, id, &latest.graphs);
    if (id.store == Store::kModels) keep(id.name, id, &latest.models);
    if (state::BelongsToGraph(id.store)) keep(KeyOf(id), id, &latest.sets[state::GraphOf(id)]);
  }
  return latest;
}

// Whether `stored` has exactly these feature sets.
bool HasSets(const StoredGraph& stored, const std::map<FeatureSetKey, VersionId>& sets) {
  if (stored.feature_sets.size() != sets.size()) return false;
  return std::all_of(stored.feature_sets.begin(), stored.feature_sets.end(), [&](const FeatureSetResource& set) {
    const auto found = sets.find(vicinal::KeyOf(set));
    return found != sets.end() && found->second.version == set.version;
  });
}

// Whether `id` is in one of the places that could not be looked at.
bool IsBelow(const std::vector<state::ListedProblem>& unseen, const VersionId& id) {
  if (unseen.empty()) return false;
  const std::string path = state::PathOf(id).value_or("") + "/";
  return std::any_of(unseen.begin(), unseen.end(),
                     [&](const state::ListedProblem& problem) { return path.starts_with(problem.path + "/"); });
}

StatusOr<StoredGraph> DescribeOnDisk(const state::StateDirectory& directory, const VersionId& graph) {
  VICINAL_ASSIGN_OR_RETURN(const state::Listing listing, directory.ListGraph(graph));
  if (listing.published.empty()) return listing.problems.front().error;
  return DescribeStored(listing);
}

}  // namespace

void DurableStore::FollowLoop() {
  for (;;) {
    {
      MutexLock lock(&mutex_);
      const auto next = std::chrono::steady_clock::now() + parts_.follow_period;
      while (!stopping_ && (parts_.follow_period.count() == 0 || std::chrono::steady_clock::now() < next)) {
        if (parts_.follow_period.count() == 0)
          changed_.Wait(&mutex_);
        else
          changed_.WaitUntil(&mutex_, next);
      }
      if (stopping_) return;
    }
    Follow();
  }
}

void DurableStore::StopFollowing() {
  if (!parts_.read_only) return;
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (writer_.joinable()) writer_.join();
}

Status DurableStore::MayWait() const {
  if (stopping()) return Unavailable("DRAINING", "the server is stopping", std::chrono::seconds(1));
  if (parts_.clock->Now() < follow_until_) return OkStatus();
  return DeadlineExceeded("ANSWERS_LATE", absl::StrCat("versions of the writer serve after at most ",
                                                       kLongestWait.count(), " s, in all, of computing ahead"));
}

GraphLoader::BeforeAdopted DurableStore::BeforeFollowing() const {
  return [this](const auto& graph, const auto& feature_sets) {
    if (!parts_.before_following_graph) return;
    parts_.before_following_graph(graph, feature_sets, [this] { return MayWait(); });
  };
}

Status DurableStore::health() const {
  MutexLock lock(&mutex_);
  return health_;
}

void DurableStore::EndBecause(const std::string& change) {
  MutexLock lock(&mutex_);
  if (!health_.ok()) return;
  health_ = FailedPrecondition(
      "INCARNATION_CHANGED", absl::StrCat(change, ", in which versions mean something else; start this server again"));
  parts_.logger->Log(LogLevel::kError, "state directory replaced", {{"error", std::string(health_.message())}});
}

// Whether what the directory shows now is what the writer has published. Where it is not, nothing is followed: an empty
// directory, as a volume that is away leaves it, does not mean that everything was deleted.
Status DurableStore::CheckFollowed() {
  if (Status reachable = parts_.directory->CheckReachable(); !reachable.ok()) {
    if (parts_.directory->IsReplaced()) EndBecause("another state directory has taken the place of the former one");
    return reachable;
  }
  VICINAL_RETURN_IF_ERROR(parts_.directory->CheckStores());
  VICINAL_ASSIGN_OR_RETURN(const std::string incarnation, parts_.directory->ReadIncarnationNow());
  if (incarnation == parts_.directory->incarnation()) return OkStatus();
  EndBecause(absl::StrCat("the state directory has begun the incarnation ", incarnation));
  return health();
}

// Logged once, until the directory can be read again.
void DurableStore::NoteLook(const Status& looked) {
  if (!looked.ok()) Count(looked);
  if (looked == last_look_) return;
  last_look_ = looked;
  if (looked.ok()) return parts_.logger->Log(LogLevel::kInfo, "state directory read again", {});
  parts_.logger->Log(LogLevel::kWarning, "state directory not read, or not all of it: what is not seen stays as it is",
                     {{"error", std::string(looked.message())}});
}

void DurableStore::Follow() {
  std::vector<state::ListedProblem> unseen;
  const StatusOr<std::set<VersionId>> listed = parts_.directory->ListPublished(&unseen);
  const Status followed = CheckFollowed();  // afterwards: what was listed counts only if all was still there
  if (!health().ok()) return;
  const Status looked = followed.ok() ? listed.status() : followed;
  NoteLook(looked.ok() && !unseen.empty() ? unseen.front().error : looked);
  if (!looked.ok()) return;
  std::set<VersionId> published = *listed;
  {
    MutexLock lock(&mutex_);
    for (const VersionId& id : published_) {
      if (IsBelow(unseen, id)) published.insert(id);  // taken to be as it was
    }
    published_ = published;
    std::erase_if(disk_bytes_, [&](const auto& known) { return !published.contains(known.first); });
    std::erase_if(not_followed_, [&](const auto& failure) { return !published.contains(failure.first); });
  }
  for (const VersionId& id : published) NotePublished(id);
  if (parts_.tuning != nullptr) parts_.tuning->DetachAllBut(published);
  if (follow_context_ == nullptr) {
    follow_context_ = parts_.device->CreateContext();
    follow_threads_.emplace(*follow_context_);
  }
  ThreadPool* const pool = follow_threads_->pool();
  follow_until_ = parts_.clock->Now() + kLongestWait;
  Latest latest = LatestOf(published);
  bool deleted = false;
  for (const auto& [name, id] : latest.models) FollowModel(id);
  for (const ModelHandle& model : parts_.models->List()) {
    if (!latest.models.contains(model->name)) deleted = parts_.models->Delete(model->name, 0).ok() || deleted;
  }
  for (const auto& [name, id] : latest.graphs) FollowGraph(id, latest.sets[id], pool);
  const std::vector<state::LostVersion> lost =
      state::StillLost(parts_.directory->Lost().value_or(followed_lost_), published);
  const auto is_lost = [&](const GraphStatus& graph) {
    return graph.state == GraphState::kFailed && std::any_of(lost.begin(), lost.end(), [&](const auto& version) {
             return version.id == VersionId{Store::kGraphs, graph.name, graph.failed_version, "", 0};
           });
  };
  parts_.graphs->ForEach([&](const GraphStatus& graph) {
    if (!latest.graphs.contains(graph.name) && !is_lost(graph))
      deleted = parts_.graphs->Delete(graph.name, 0).ok() || deleted;
  });
  if (deleted) parts_.on_load();
  FollowLost(lost);
}

// Tells what the writer has moved to quarantine, until it serves again or the writer has forgotten it.
void DurableStore::FollowLost(const std::vector<state::LostVersion>& lost) {
  for (const state::LostVersion& before : followed_lost_) {
    const VersionId& id = before.id;
    if (std::any_of(lost.begin(), lost.end(), [&](const auto& version) { return version.id == id; })) continue;
    if (id.store == Store::kModels) parts_.models->ForgetLost(id.name);
    if (state::BelongsToGraph(id.store))
      parts_.graphs->SetLostFeatures(id.graph, id.graph_version, id.name, OkStatus(), KindOf(id.store));
  }
  for (const state::LostVersion& version : lost) {
    const VersionId& id = version.id;
    const Status error = LostError(version);
    if (id.store == Store::kModels) parts_.models->SetLost(id.name, error);
    if (state::BelongsToGraph(id.store))
      parts_.graphs->SetLostFeatures(id.graph, id.graph_version, id.name, error, KindOf(id.store));
    if (id.store != Store::kGraphs) continue;
    parts_.graphs->BeginLoad(id.name, DescribeUnread(id), MonotonicTime{});
    parts_.graphs->FailLoad(id.name, id.version, error);
  }
  followed_lost_ = lost;
}

void DurableStore::FollowModel(const VersionId& latest) {
  const StatusOr<ModelHandle> current = parts_.models->Find(latest.name, 0);
  if (current.ok() && (*current)->version >= latest.version) return;
  const StatusOr<Manifest> manifest = parts_.directory->GetManifest(latest);
  const auto before = [this](const StoredModel& model) {
    if (parts_.before_following_model) {
      parts_.before_following_model(model.name, model.model, [this] { return MayWait(); });
    }
  };
  const Status loaded = manifest.ok() ? LoadModel(*manifest, before) : manifest.status();
  if (!loaded.ok()) return CannotFollow(latest, loaded);
  parts_.on_load();
}

void DurableStore::FollowGraph(const VersionId& latest, const std::map<FeatureSetKey, VersionId>& sets,
                               ThreadPool* pool) {
  const std::string& name = latest.name;
  const StatusOr<GraphStatus> status = parts_.graphs->Get(name);
  if (status.ok() && status->failed_version >= latest.version) return;  // it will not change
  const int64_t version = status.ok() ? ServingVersion(*status) : 0;
  const bool failed = status.ok() && version == 0;  // nothing of that name serves, but the name is taken
  if (failed || (status.ok() && status->graph != nullptr)) {
    if (version == latest.version) return FollowFeatures(*status, sets, pool);
    if (version < latest.version) {
      const Status adopted = loader_.Adopt(latest, pool, BeforeFollowing());
      if (!adopted.ok()) CannotFollow(latest, adopted);
    }
    return;
  }
  const bool is_known = version == latest.version && HasSets(*status->stored, sets);
  if (is_known) return;
  StatusOr<StoredGraph> stored = DescribeOnDisk(*parts_.directory, latest);
  // Where no other version is known, requests are told what is wrong with this one.
  if (stored.status().code() == StatusCode::kDataLoss && version == 0) stored = DescribeUnread(latest);
  if (!stored.ok()) return CannotFollow(latest, stored.status());
  if (version != 0) return parts_.graphs->ReplaceStored(name, version, *stored);
  parts_.graphs->BeginLoad(name, *stored, parts_.clock->Now());
  loader_.Load(name, {}, [](const Status&) {}).IgnoreError();
}

// Of a graph in memory, whose version is the latest.
void DurableStore::FollowFeatures(const GraphStatus& status, const std::map<FeatureSetKey, VersionId>& sets,
                                  ThreadPool* pool) {
  if (parts_.tuning != nullptr && parts_.tuning->Refresh(*status.graph)) parts_.on_load();
  bool deleted = false;
  for (const FeatureSetHandle& set : status.feature_sets) {
    if (sets.contains(vicinal::KeyOf(*set))) continue;
    deleted = parts_.graphs->DeleteFeatures(status.name, set->name, set->kind).ok() || deleted;
  }
  if (deleted) parts_.on_load();
  for (const auto& entry : sets) {
    const VersionId& latest = entry.second;
    const bool known = std::any_of(status.feature_sets.begin(), status.feature_sets.end(), [&](const auto& set) {
      return vicinal::KeyOf(*set) == entry.first && set->version >= latest.version;
    });
    if (known) continue;
    const StatusOr<Manifest> manifest = parts_.directory->GetManifest(latest);
    const Status adopted =
        manifest.ok() ? loader_.AdoptFeatures(*manifest, status.graph, pool, BeforeFollowing()) : manifest.status();
    if (!adopted.ok()) CannotFollow(latest, adopted);
  }
}

// Tried again with the next step, and logged once.
void DurableStore::CannotFollow(const VersionId& id, const Status& error) {
  if (error.code() == StatusCode::kNotFound) return;  // removed meanwhile
  {
    MutexLock lock(&mutex_);
    Status& known = not_followed_[id];
    if (known == error) return;
    known = error;
  }
  parts_.logger->Log(LogLevel::kError, "version of the writer not loaded",
                     {{"version", state::Describe(id)}, {"error", std::string(error.message())}});
}

}  // namespace vicinal::durable
