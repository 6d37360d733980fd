// SPDX-License-Identifier: Apache-2.0
// `vicinal sync`: brings servers to the state that a file declares (docs/sync.md). First everything is compared, then
// each resource is read once and sent to all servers that need it. A server that fails is left where it is; the others
// go on.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/feature_rows.h"
#include "client/cpp/cli/graph_options.h"
#include "client/cpp/cli/ids_file.h"
#include "client/cpp/cli/output.h"
#include "client/cpp/cli/sync_content.h"
#include "client/cpp/cli/sync_file.h"
#include "client/cpp/cli/sync_plan.h"
#include "client/cpp/cli/tensors.h"
#include "client/cpp/cli/wait_option.h"
#include "client/cpp/formats/files.h"
#include "client/cpp/formats/status_macros.h"

namespace vicinal::client::cli {
namespace {

// One server.
struct Target {
  std::string address;
  std::unique_ptr<Client> client;
  std::vector<SyncStep> steps;
  size_t done = 0;      // steps, of those that change something
  absl::Status status;  // the first error: nothing more is done here

  std::map<std::string, size_t> index;  // of steps, by DigestKey

  void SetSteps(std::vector<SyncStep> all) {
    steps = std::move(all);
    for (size_t i = 0; i < steps.size(); ++i) index[DigestKey(steps[i].kind, steps[i].graph, steps[i].name)] = i;
  }
  const SyncStep* Find(const char* kind, const std::string& graph, const std::string& name) const {
    const auto found = index.find(DigestKey(kind, graph, name));
    return found == index.end() ? nullptr : &steps[found->second];
  }
};

constexpr char kFeatureSet[] = "feature set", kEdgeFeatureSet[] = "edge feature set";

// Of a step about a set.
v1::FeatureKind KindOf(const std::string& kind) {
  return kind == kEdgeFeatureSet ? v1::FEATURE_KIND_EDGES : v1::FEATURE_KIND_NODES;
}

bool Changes(const SyncStep& step) { return step.action != SyncAction::kKeep; }

std::string Described(const SyncStep& step) {
  return absl::StrCat(step.kind, " '", step.name, "'", step.graph.empty() ? "" : " of '" + step.graph + "'");
}

class Syncer {
 public:
  Syncer(const Context& context, SyncFile file) : context_(context), file_(std::move(file)) {}

  absl::Status Run() {
    CLIENT_ASSIGN_OR_RETURN(digests_, ReadDigests(file_));
    CLIENT_RETURN_IF_ERROR(Connect());
    for (Target& target : targets_) target.status = Compare(&target);
    absl::Status local;
    if (!context_.args.Has("dry_run")) {
      local = UploadAll();
      // What could not be read leaves the declared state incomplete: nothing goes then.
      if (local.ok()) {
        for (Target& target : targets_) Delete(&target);
      }
    }
    Print();
    CLIENT_RETURN_IF_ERROR(local);
    for (const Target& target : targets_) {
      if (!target.status.ok()) return AtServer(target);
    }
    return absl::OkStatus();
  }

 private:
  // --server, or else --to, or else the file's servers, or else the usual one.
  absl::Status Connect() {
    std::vector<std::string> addresses = context_.args.All("to");
    if (context_.args.Has("server") && !addresses.empty()) {
      return absl::InvalidArgumentError("--server and --to cannot be combined; --to may be repeated");
    }
    if (addresses.empty() && !context_.args.Has("server")) addresses = file_.servers;
    if (addresses.empty()) addresses = {context_.server};
    for (const std::string& address : addresses) {
      Target& target = targets_.emplace_back();
      target.address = address;
      CLIENT_ASSIGN_OR_RETURN(target.client, context_.connect(address));
    }
    return absl::OkStatus();
  }

  absl::Status Compare(Target* target) {
    ServerContents contents;
    CLIENT_ASSIGN_OR_RETURN(const std::vector<v1::Graph> graphs, target->client->ListGraphs());
    for (const v1::Graph& graph : graphs) {
      contents.graphs[graph.name()] = graph;
      // Somebody else's upload decides what must be done here.
      if (graph.state() != v1::Graph::STATE_PREPARING) continue;
      if (const auto ready = target->client->WatchGraph(graph.name(), {}); ready.ok())
        contents.graphs[graph.name()] = *ready;
    }
    CLIENT_ASSIGN_OR_RETURN(const std::vector<v1::Model> models, target->client->ListModels());
    for (const v1::Model& model : models) contents.models[model.name()] = model;
    CLIENT_ASSIGN_OR_RETURN(std::vector<SyncStep> steps,
                            PlanSync(file_, digests_, contents, context_.args.Has("prune")));
    target->SetSteps(std::move(steps));
    return absl::OkStatus();
  }

  // The servers that are in order so far and need that resource.
  std::vector<Target*> Needing(const char* kind, const std::string& graph, const std::string& name) {
    std::vector<Target*> needing;
    for (Target& target : targets_) {
      if (!target.status.ok()) continue;
      const SyncStep* const step = target.Find(kind, graph, name);
      if (step != nullptr && Changes(*step)) needing.push_back(&target);
    }
    return needing;
  }

  absl::Status UploadAll() {
    for (const DeclaredGraph& graph : file_.graphs) {
      CLIENT_RETURN_IF_ERROR(AtResource(file_, "graph", graph, UploadGraph(graph)));
      for (const DeclaredResource& set : graph.feature_sets) {
        CLIENT_RETURN_IF_ERROR(AtResource(file_, kFeatureSet, set, UploadFeatures(graph.name, set)));
      }
      for (const DeclaredResource& set : graph.edge_feature_sets) {
        CLIENT_RETURN_IF_ERROR(AtResource(file_, kEdgeFeatureSet, set, UploadEdgeFeatures(graph.name, set)));
      }
    }
    for (const DeclaredResource& model : file_.models) {
      CLIENT_RETURN_IF_ERROR(AtResource(file_, "model", model, UploadModel(model)));
    }
    return absl::OkStatus();
  }

  // Runs `upload` for one server, and counts or keeps its error.
  void Send(Target* target, const char* kind, const DeclaredResource& declared,
            const std::function<absl::Status(const UploadOptions&)>& upload) {
    ProgressBar bar(context_.err, context_.terminal);
    UploadOptions options;
    options.progress = [&](const UploadProgress& progress) {
      bar.Show(
          static_cast<double>(progress.sent_bytes) / static_cast<double>(std::max<int64_t>(progress.total_bytes, 1)),
          absl::StrCat(target->address, ": ", kind, " ", declared.name));
    };
    options.watch = [&](const v1::Graph& state) { bar.Show(state.progress(), target->address + ": preparing"); };
    absl::Status status =
        SetWait(Context{context_, *target->client, target->address, context_.connect}, &bar, &options);
    if (status.ok()) status = upload(options);
    target->status = AtResource(file_, kind, declared, status);
    if (status.ok()) ++target->done;
  }

  absl::Status UploadGraph(const DeclaredGraph& declared) {
    const std::vector<Target*> targets = Needing("graph", "", declared.name);
    if (targets.empty()) return absl::OkStatus();
    CLIENT_ASSIGN_OR_RETURN(GraphContent content,
                            ReadGraphContent(declared, digests_.at(DigestKey("graph", "", declared.name))));
    const std::vector<UploadTensor> tensors = GraphTensors(content.data);
    std::optional<v1::Graph> uploaded;
    std::optional<StagedIds> staged;
    const std::string ids_path = declared.File("ids_out");
    if (content.data.ids && !ids_path.empty()) {
      CLIENT_RETURN_IF_ERROR(CheckIdsPath(ids_path, /*is_default=*/false));
      CLIENT_ASSIGN_OR_RETURN(StagedIds ids, StagedIds::Write(*content.data.ids, ids_path, declared.name));
      staged.emplace(std::move(ids));
    } else if (content.data.ids) {
      Note(declared, "has ids of its own; ids_out: FILE keeps the map of them");
    }
    for (const std::string& note : content.data.notes) Note(declared, note);
    for (Target* const target : targets) {
      const SyncStep& step = *target->Find("graph", "", declared.name);
      content.spec.set_replace(step.action == SyncAction::kReplace);
      content.spec.set_if_version(step.action == SyncAction::kReplace ? step.version : 0);
      Send(target, "graph", declared, [&](const UploadOptions& options) -> absl::Status {
        CLIENT_ASSIGN_OR_RETURN(uploaded, target->client->UploadGraph(content.spec, tensors, options));
        return absl::OkStatus();
      });
    }
    if (staged && uploaded) CLIENT_RETURN_IF_ERROR(staged->Keep(*content.data.ids, ids_path, *uploaded));
    return absl::OkStatus();
  }

  void Note(const DeclaredGraph& declared, const std::string& note) {
    notes_.push_back(absl::StrCat("graph '", declared.name, "': ", note));
    if (!context_.json) context_.err << "note: " << notes_.back() << '\n';
  }

  absl::Status UploadFeatures(const std::string& graph, const DeclaredResource& declared) {
    const std::vector<Target*> targets = Needing(kFeatureSet, graph, declared.name);
    if (targets.empty()) return absl::OkStatus();
    CLIENT_ASSIGN_OR_RETURN(
        const FeaturesContent content,
        ReadFeaturesContent(graph, declared, digests_.at(DigestKey(kFeatureSet, graph, declared.name))));
    SendSet(targets, kFeatureSet, declared, content.spec, FeatureTensors(content.features), content.features.rows);
    return absl::OkStatus();
  }

  absl::Status UploadEdgeFeatures(const std::string& graph, const DeclaredResource& declared) {
    const std::vector<Target*> targets = Needing(kEdgeFeatureSet, graph, declared.name);
    if (targets.empty()) return absl::OkStatus();
    CLIENT_ASSIGN_OR_RETURN(
        const EdgeFeaturesContent content,
        ReadEdgeFeaturesContent(graph, declared, digests_.at(DigestKey(kEdgeFeatureSet, graph, declared.name))));
    SendSet(targets, kEdgeFeatureSet, declared, content.spec, {ToUploadTensor("edge_attr", content.edge_attr)},
            content.edge_attr.shape[0]);
    return absl::OkStatus();
  }

  // A set of `rows` rows, of either kind, to the servers that need it.
  void SendSet(const std::vector<Target*>& targets, const char* kind, const DeclaredResource& declared,
               v1::UploadFeaturesSpec spec, const std::vector<UploadTensor>& tensors, int64_t rows) {
    for (Target* const target : targets) {
      const SyncStep& step = *target->Find(kind, spec.graph(), declared.name);
      spec.set_replace(step.action == SyncAction::kReplace);
      spec.set_if_version(step.action == SyncAction::kReplace ? step.version : 0);
      Send(target, kind, declared, [&](const UploadOptions& options) -> absl::Status {
        CLIENT_RETURN_IF_ERROR(
            CheckFeatureRows(*target->client, spec.graph(), KindOf(kind), rows, declared.File("file")));
        return target->client->UploadFeatures(spec, tensors, options).status();
      });
    }
  }

  absl::Status UploadModel(const DeclaredResource& declared) {
    const std::vector<Target*> targets = Needing("model", "", declared.name);
    if (targets.empty()) return absl::OkStatus();
    CLIENT_ASSIGN_OR_RETURN(ModelContent content,
                            ReadModelContent(declared, digests_.at(DigestKey("model", "", declared.name))));
    std::vector<UploadTensor> tensors = {FileTensor("weights", content.weights)};
    if (content.spec.has_reference()) tensors.push_back(FileTensor("reference", content.reference));
    for (Target* const target : targets) {
      const SyncStep& step = *target->Find("model", "", declared.name);
      content.spec.set_replace(step.action == SyncAction::kReplace);
      content.spec.set_if_version(step.action == SyncAction::kReplace ? step.version : 0);
      Send(target, "model", declared, [&](const UploadOptions& options) {
        return target->client->UploadModel(content.spec, tensors, options).status();
      });
    }
    return absl::OkStatus();
  }

  static void Delete(Target* target) {
    for (const SyncStep& step : target->steps) {
      if (step.action != SyncAction::kDelete || !target->status.ok()) continue;
      const std::string kind = step.kind;
      target->status = kind == "graph" ? target->client->DeleteGraph(step.name, step.version)
                       : kind == "model"
                           ? target->client->DeleteModel(step.name, step.version)
                           : target->client->DeleteFeatures(step.graph, step.name, KindOf(step.kind), step.version);
      if (target->status.ok()) ++target->done;
    }
  }

  // The error with the server in front, where there are several.
  absl::Status AtServer(const Target& target) const {
    if (targets_.size() == 1) return target.status;
    absl::Status at(target.status.code(), absl::StrCat(target.address, ": ", std::string(target.status.message())));
    target.status.ForEachPayload(
        [&](absl::string_view url, const absl::Cord& payload) { at.SetPayload(url, payload); });
    return at;
  }

  void Print() const {
    if (context_.json) return PrintAsJson();
    Table table({"server", "action", "what", "result"});
    bool any = false;
    for (const Target& target : targets_) {
      size_t index = 0;
      for (const SyncStep& step : target.steps) {
        if (!Changes(step)) continue;
        table.Add({target.address, NameOf(step.action), Described(step), ResultOf(target, index++)});
        any = true;
      }
    }
    if (any) table.Print(context_.out);
    for (const Target& target : targets_) {
      const auto kept =
          std::count_if(target.steps.begin(), target.steps.end(), [](const SyncStep& step) { return !Changes(step); });
      context_.out << target.address << ": " << kept << " unchanged";
      if (!target.status.ok()) context_.out << "; " << Shorten(std::string(target.status.message()));
      context_.out << '\n';
    }
  }

  // Steps are done in their order, so the first `done` are.
  std::string ResultOf(const Target& target, size_t index) const {
    if (context_.args.Has("dry_run")) return "planned";
    return index < target.done ? "done" : index == target.done && !target.status.ok() ? "failed" : "not done";
  }

  void PrintAsJson() const {
    Json servers = Json::array();
    for (const Target& target : targets_) {
      Json steps = Json::array();
      size_t index = 0;
      for (const SyncStep& step : target.steps) {
        Json one = {{"action", NameOf(step.action)}, {"kind", step.kind}, {"name", step.name}};
        if (!step.graph.empty()) one["graph"] = step.graph;
        if (Changes(step)) one["result"] = ResultOf(target, index++);
        steps.push_back(std::move(one));
      }
      Json server = {{"server", target.address}, {"steps", steps}};
      if (!target.status.ok()) server["error"] = std::string(target.status.message());
      servers.push_back(std::move(server));
    }
    context_.PrintJson(Json{{"dry_run", context_.args.Has("dry_run")}, {"servers", servers}, {"notes", notes_}});
  }

  const Context& context_;
  const SyncFile file_;
  SyncDigests digests_;
  std::vector<Target> targets_;
  std::vector<std::string> notes_;
};

absl::Status Sync(const Context& context) {
  CLIENT_ASSIGN_OR_RETURN(SyncFile file, ReadSyncFile(context.args.Positional(0)));
  return Syncer(context, std::move(file)).Run();
}

}  // namespace

Command SyncCommand() {
  return {{"sync",
           {"FILE"},
           "Brings servers to the graphs, feature sets and models that a file declares.",
           "FILE is YAML:\n"
           "\n"
           "  servers: [\"a:8500\", \"b:8500\"]      optional\n"
           "  graphs:\n"
           "    cora:\n"
           "      file: cora.npz                  as for graph upload; also x, edge_attr, ids, reorder and its other\n"
           "                                      options\n"
           "      features:\n"
           "        today: {file: today.npy}\n"
           "      edge_features:                  as for features upload --edges\n"
           "        today: {file: edges_today.npy}\n"
           "  models:\n"
           "    gcn: {architecture: gcn.json, weights: gcn.safetensors}\n"
           "\n"
           "Paths are relative to FILE. What a server has already, by the digest of its files and options, is not sent "
           "again.\n"
           "What FILE does not declare stays, unless --prune is given.",
           {{"to", OptionKind::kText, "HOST:PORT", "a server, instead of those in FILE", {}, false, true},
            {"dry_run", OptionKind::kFlag, "", "only show what would be done"},
            {"prune", OptionKind::kFlag, "", "delete graphs, feature sets and models that FILE does not declare"},
            WaitOption()}},
          Sync};
}

}  // namespace vicinal::client::cli
