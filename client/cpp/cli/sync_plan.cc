// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/cli/sync_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cpp/formats/files.h"
#include "client/cpp/formats/status_macros.h"
#include "proto/wire/names.h"

namespace vicinal::client::cli {
namespace {

using Sets = google::protobuf::RepeatedPtrField<v1::FeatureSet>;

const v1::FeatureSet* FindSet(const Sets& sets, const std::string& name) {
  for (const v1::FeatureSet& set : sets) {
    if (set.name() == name) return &set;
  }
  return nullptr;
}

bool Declares(const std::vector<DeclaredResource>& sets, const std::string& name) {
  return std::any_of(sets.begin(), sets.end(), [&](const DeclaredResource& one) { return one.name == name; });
}

template <class Resource>
std::map<std::string, const Resource*> ByName(const std::vector<Resource>& declared) {
  std::map<std::string, const Resource*> by_name;
  for (const Resource& one : declared) by_name[one.name] = &one;
  return by_name;
}

// Whether the server's version was made from the declared files, its own features are as they came with it, and it
// takes the declared edge feature sets.
bool IsCurrent(const DeclaredGraph& declared, const std::string& digest, const v1::Graph& graph) {
  const bool with_features = graph.source_digest() == WithFeatures(digest);
  if (!with_features && graph.source_digest() != digest) return false;
  if (!declared.edge_feature_sets.empty() && !graph.edge_order_kept()) return false;
  if (Declares(declared.feature_sets, wire::kDefaultFeatureSet)) return true;
  const v1::FeatureSet* const own = FindSet(graph.feature_sets(), wire::kDefaultFeatureSet);
  return with_features ? own != nullptr && own->source_digest() == graph.source_digest() : own == nullptr;
}

class Planner {
 public:
  Planner(const SyncFile& file, const SyncDigests& digests, const ServerContents& contents, bool prune)
      : file_(file), digests_(digests), contents_(contents), prune_(prune) {}

  absl::StatusOr<std::vector<SyncStep>> Run() {
    for (const DeclaredGraph& graph : file_.graphs) CLIENT_RETURN_IF_ERROR(PlanGraph(graph));
    for (const DeclaredResource& model : file_.models) PlanModel(model);
    if (prune_) Prune();
    return std::move(steps_);
  }

 private:
  const std::string& DigestOf(const char* kind, const std::string& graph, const std::string& name) const {
    return digests_.at(DigestKey(kind, graph, name));
  }

  absl::Status PlanGraph(const DeclaredGraph& declared) {
    const auto found = contents_.graphs.find(declared.name);
    const v1::Graph* const there = found == contents_.graphs.end() ? nullptr : &found->second;
    const bool current = there != nullptr && IsCurrent(declared, DigestOf("graph", "", declared.name), *there);
    const SyncAction action = current ? SyncAction::kKeep : there ? SyncAction::kReplace : SyncAction::kCreate;
    if (action == SyncAction::kReplace) CLIENT_RETURN_IF_ERROR(CheckDropped(declared, *there));
    steps_.push_back({action, "graph", "", declared.name, there != nullptr ? there->version() : 0});
    // With a replaced graph its sets are gone, but its upload may bring the set 'default' of nodes.
    for (const DeclaredResource& set : declared.feature_sets) {
      PlanSet("feature set", declared, set, current ? &there->feature_sets() : nullptr,
              set.name == wire::kDefaultFeatureSet && !current);
    }
    for (const DeclaredResource& set : declared.edge_feature_sets) {
      PlanSet("edge feature set", declared, set, current ? &there->edge_feature_sets() : nullptr, false);
    }
    return absl::OkStatus();
  }

  // `there`: the server's sets of that kind; null: none that stay. `comes_along`: the graph's upload may bring the set.
  void PlanSet(const char* kind, const DeclaredGraph& graph, const DeclaredResource& set, const Sets* there,
               bool comes_along) {
    const v1::FeatureSet* const known = there != nullptr ? FindSet(*there, set.name) : nullptr;
    const bool same = known != nullptr && known->source_digest() == DigestOf(kind, graph.name, set.name);
    steps_.push_back({same                   ? SyncAction::kKeep
                      : known || comes_along ? SyncAction::kReplace
                                             : SyncAction::kCreate,
                      kind, graph.name, set.name, known != nullptr ? known->version() : 0});
  }

  // The set 'default' of nodes is the upload's own.
  absl::Status CheckDropped(const DeclaredGraph& declared, const v1::Graph& there) const {
    if (prune_) return absl::OkStatus();
    for (const v1::FeatureSet& set : there.feature_sets()) {
      const bool stays = set.name() == wire::kDefaultFeatureSet || Declares(declared.feature_sets, set.name());
      if (!stays) return Drops(declared, "feature set", set.name());
    }
    for (const v1::FeatureSet& set : there.edge_feature_sets()) {
      if (!Declares(declared.edge_feature_sets, set.name())) return Drops(declared, "edge feature set", set.name());
    }
    return absl::OkStatus();
  }

  absl::Status Drops(const DeclaredGraph& declared, const char* kind, const std::string& set) const {
    return absl::FailedPreconditionError(absl::StrCat(file_.path, ":", declared.line, ": graph '", declared.name,
                                                      "' must be replaced, which drops its ", kind, " '", set,
                                                      "'; declare that set here, or pass --prune to drop it"));
  }

  void PlanModel(const DeclaredResource& declared) {
    const auto found = contents_.models.find(declared.name);
    const bool there = found != contents_.models.end();
    const bool same = there && found->second.source_digest() == DigestOf("model", "", declared.name);
    steps_.push_back({same    ? SyncAction::kKeep
                      : there ? SyncAction::kReplace
                              : SyncAction::kCreate,
                      "model", "", declared.name, there ? found->second.version() : 0});
  }

  void Prune() {
    const auto models = ByName(file_.models);
    for (const auto& [name, model] : contents_.models) {
      if (!models.contains(name)) steps_.push_back({SyncAction::kDelete, "model", "", name, model.version()});
    }
    const auto graphs = ByName(file_.graphs);
    for (const auto& [name, graph] : contents_.graphs) {
      const auto found = graphs.find(name);
      if (found == graphs.end()) {
        steps_.push_back({SyncAction::kDelete, "graph", "", name, graph.version()});
        continue;
      }
      const DeclaredGraph* const declared = found->second;
      if (!IsCurrent(*declared, DigestOf("graph", "", name), graph)) continue;  // replaced: its sets are gone
      for (const v1::FeatureSet& set : graph.feature_sets()) {
        const bool own = set.name() == wire::kDefaultFeatureSet || Declares(declared->feature_sets, set.name());
        if (!own) steps_.push_back({SyncAction::kDelete, "feature set", name, set.name(), set.version()});
      }
      for (const v1::FeatureSet& set : graph.edge_feature_sets()) {
        const bool own = Declares(declared->edge_feature_sets, set.name());
        if (!own) steps_.push_back({SyncAction::kDelete, "edge feature set", name, set.name(), set.version()});
      }
    }
  }

  const SyncFile& file_;
  const SyncDigests& digests_;
  const ServerContents& contents_;
  const bool prune_;
  std::vector<SyncStep> steps_;
};

}  // namespace

const char* NameOf(SyncAction action) {
  switch (action) {
    case SyncAction::kKeep:
      return "keep";
    case SyncAction::kCreate:
      return "create";
    case SyncAction::kReplace:
      return "replace";
    case SyncAction::kDelete:
      return "delete";
  }
  return "";
}

std::string DigestKey(const char* kind, const std::string& graph, const std::string& name) {
  return absl::StrCat(kind, " ", graph, graph.empty() ? "" : "/", name);
}

std::string WithFeatures(const std::string& digest) { return digest + "+x"; }

absl::StatusOr<std::vector<SyncStep>> PlanSync(const SyncFile& file, const SyncDigests& digests,
                                               const ServerContents& contents, bool prune) {
  return Planner(file, digests, contents, prune).Run();
}

}  // namespace vicinal::client::cli
