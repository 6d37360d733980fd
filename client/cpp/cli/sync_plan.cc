// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/cli/sync_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cpp/formats/files.h"
#include "client/cpp/formats/status_macros.h"
#include "proto/wire/names.h"

namespace vicinal::client::cli {
namespace {

const v1::FeatureSet* FindSet(const v1::Graph& graph, const std::string& name) {
  for (const v1::FeatureSet& set : graph.feature_sets()) {
    if (set.name() == name) return &set;
  }
  return nullptr;
}

bool Declares(const DeclaredGraph& graph, const std::string& set) {
  return std::any_of(graph.feature_sets.begin(), graph.feature_sets.end(),
                     [&](const DeclaredResource& one) { return one.name == set; });
}

template <class Resource>
std::map<std::string, const Resource*> ByName(const std::vector<Resource>& declared) {
  std::map<std::string, const Resource*> by_name;
  for (const Resource& one : declared) by_name[one.name] = &one;
  return by_name;
}

// Whether the server's version was made from the declared files, and its own features are as they came with it.
bool IsCurrent(const DeclaredGraph& declared, const std::string& digest, const v1::Graph& graph) {
  const bool with_features = graph.source_digest() == WithFeatures(digest);
  if (!with_features && graph.source_digest() != digest) return false;
  if (Declares(declared, wire::kDefaultFeatureSet)) return true;
  const v1::FeatureSet* const own = FindSet(graph, wire::kDefaultFeatureSet);
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
    for (const DeclaredResource& set : declared.feature_sets) {
      // With a replaced graph its sets are gone.
      const v1::FeatureSet* const known = current ? FindSet(*there, set.name) : nullptr;
      const bool same = known != nullptr && known->source_digest() == DigestOf("feature set", declared.name, set.name);
      const bool comes_along = set.name == wire::kDefaultFeatureSet && !current;
      steps_.push_back({same                   ? SyncAction::kKeep
                        : known || comes_along ? SyncAction::kReplace
                                               : SyncAction::kCreate,
                        "feature set", declared.name, set.name, known != nullptr ? known->version() : 0});
    }
    return absl::OkStatus();
  }

  // The set 'default' is the upload's own.
  absl::Status CheckDropped(const DeclaredGraph& declared, const v1::Graph& there) const {
    if (prune_) return absl::OkStatus();
    for (const v1::FeatureSet& set : there.feature_sets()) {
      if (set.name() == wire::kDefaultFeatureSet || Declares(declared, set.name())) continue;
      return absl::FailedPreconditionError(absl::StrCat(file_.path, ":", declared.line, ": graph '", declared.name,
                                                        "' must be replaced, which drops its feature set '", set.name(),
                                                        "'; declare that set here, or pass --prune to drop it"));
    }
    if (there.edge_feature_sets_size() > 0) {
      return absl::FailedPreconditionError(
          absl::StrCat(file_.path, ":", declared.line, ": graph '", declared.name,
                       "' must be replaced, which drops its edge feature set '", there.edge_feature_sets(0).name(),
                       "', and files declare none; pass --prune to drop it, and upload it again"));
    }
    return absl::OkStatus();
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
        const bool own = set.name() == wire::kDefaultFeatureSet || Declares(*declared, set.name());
        if (!own) steps_.push_back({SyncAction::kDelete, "feature set", name, set.name(), set.version()});
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
