// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/cli/sync_content.h"

#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/cli/graph_options.h"
#include "client/cpp/cli/node_names.h"
#include "client/cpp/formats/files.h"
#include "client/cpp/formats/status_macros.h"
#include "client/cpp/formats/text.h"
#include "proto/tls/digest.h"

namespace vicinal::client::cli {
namespace {

// Not part of what is uploaded.
bool Matters(const std::string& file) { return file != "ids_out"; }

// "sync-1:" and the SHA-256 of what the upload is made from: the options, and the digest of each file. A file's suffix
// may decide its format.
absl::StatusOr<std::string> DigestOf(const char* kind, const DeclaredResource& declared) {
  std::string text = absl::StrCat(kind, "\n");
  for (const auto& [key, value] : declared.options) absl::StrAppend(&text, key, "=", value, "\n");
  for (const auto& [key, path] : declared.files) {
    if (!Matters(key)) continue;
    // It is read more than once, and must be the same each time.
    CLIENT_RETURN_IF_ERROR(CheckRegular(path));
    CLIENT_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
    absl::StrAppend(&text, key, std::filesystem::path(path).extension().string(), ":", tls::Sha256Hex(bytes), "\n");
  }
  return absl::StrCat("sync-1:", tls::Sha256Hex(text));
}

absl::Status CheckUnchanged(const char* kind, const DeclaredResource& declared, const std::string& digest) {
  CLIENT_ASSIGN_OR_RETURN(const std::string now, DigestOf(kind, declared));
  if (now == digest) return absl::OkStatus();
  return absl::InvalidArgumentError("a file changed while it was read; run the command again once it is complete");
}

GraphFileOptions OptionsOf(const DeclaredGraph& declared) {
  GraphFileOptions options;
  options.format = ParseFormat(declared.Option("format", "auto"));
  options.features_path = declared.File("x");
  options.edge_features_path = declared.File("edge_attr");
  options.ids_path = declared.File("ids");
  options.titles = ParseChoice<Titles>(declared.Option("titles", "auto"));
  options.ids_title = ParseChoice<Titles>(declared.Option("ids_title", "auto"));
  options.comments = ParseChoice<Comments>(declared.Option("comments", "auto"));
  int64_t nodes = 0;
  if (ParseInt(declared.Option("num_nodes", ""), &nodes)) options.node_count = nodes;
  options.undirected = !declared.Option("undirected", "").empty();
  options.matrix_rows = ParseRows(declared.Option("mtx_rows", "target"));
  return options;
}

}  // namespace

absl::Status AtResource(const SyncFile& file, const char* kind, const DeclaredResource& resource,
                        const absl::Status& status) {
  if (status.ok()) return status;
  absl::Status at(status.code(), absl::StrCat(file.path, ":", resource.line, ": ", kind, " '", resource.name,
                                              "': ", std::string(status.message())));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { at.SetPayload(url, payload); });
  return at;
}

absl::StatusOr<SyncDigests> ReadDigests(const SyncFile& file) {
  SyncDigests digests;
  const auto add = [&](const char* kind, const std::string& graph, const DeclaredResource& declared) -> absl::Status {
    absl::StatusOr<std::string> digest = DigestOf(kind, declared);
    // Whatever is wrong with a file here is a fault of the command line.
    if (!digest.ok()) {
      return AtResource(file, kind, declared, absl::InvalidArgumentError(digest.status().message()));
    }
    digests[DigestKey(kind, graph, declared.name)] = *std::move(digest);
    return absl::OkStatus();
  };
  for (const DeclaredGraph& graph : file.graphs) {
    CLIENT_RETURN_IF_ERROR(add("graph", "", graph));
    for (const DeclaredResource& set : graph.feature_sets) {
      CLIENT_RETURN_IF_ERROR(add("feature set", graph.name, set));
    }
    for (const DeclaredResource& set : graph.edge_feature_sets) {
      CLIENT_RETURN_IF_ERROR(add("edge feature set", graph.name, set));
    }
  }
  for (const DeclaredResource& model : file.models) CLIENT_RETURN_IF_ERROR(add("model", "", model));
  return digests;
}

absl::StatusOr<GraphContent> ReadGraphContent(const DeclaredGraph& declared, const std::string& digest) {
  GraphContent content;
  const std::string path = declared.File("file");
  CLIENT_ASSIGN_OR_RETURN(content.data, ReadGraphFile(path, OptionsOf(declared)));
  CLIENT_RETURN_IF_ERROR(CheckUnchanged("graph", declared, digest));
  const GraphData& data = content.data;
  v1::UploadGraphSpec& spec = content.spec;
  if (data.features) {
    CLIENT_RETURN_IF_ERROR(
        CheckFinite(*data.features, declared.files.contains("x") ? declared.File("x") : path, data.ids));
    if (data.features->sparse) spec.set_feature_count(data.features->columns);
  }
  CLIENT_RETURN_IF_ERROR(CheckEdgesFinite(data, path, declared.File("edge_attr")));
  spec.set_name(declared.name);
  spec.set_node_count(data.node_count);
  spec.set_reorder(ParseReorder(declared.Option("reorder", "auto")));
  if (data.ids) spec.set_ids_digest(data.ids->Digest());
  spec.set_pinned(!declared.Option("pinned", "").empty());
  // Not part of the digest where sets ask for it: with the last of them the graph need not be sent again.
  spec.set_keep_edge_order(!declared.Option("keep_edge_order", "").empty() || !declared.edge_feature_sets.empty());
  spec.set_source_digest(data.features ? WithFeatures(digest) : digest);
  return content;
}

absl::StatusOr<FeaturesContent> ReadFeaturesContent(const std::string& graph, const DeclaredResource& declared,
                                                    const std::string& digest) {
  FeaturesContent content;
  CLIENT_ASSIGN_OR_RETURN(content.features, ReadFeatures(declared.File("file")));
  CLIENT_RETURN_IF_ERROR(CheckUnchanged("feature set", declared, digest));
  CLIENT_RETURN_IF_ERROR(CheckFinite(content.features, declared.File("file"), {}));
  content.spec.set_graph(graph);
  content.spec.set_name(declared.name);
  if (content.features.sparse) content.spec.set_feature_count(content.features.columns);
  content.spec.set_source_digest(digest);
  return content;
}

absl::StatusOr<EdgeFeaturesContent> ReadEdgeFeaturesContent(const std::string& graph, const DeclaredResource& declared,
                                                            const std::string& digest) {
  EdgeFeaturesContent content;
  CLIENT_ASSIGN_OR_RETURN(content.edge_attr, ReadEdgeFeatures(declared.File("file")));
  CLIENT_RETURN_IF_ERROR(CheckUnchanged("edge feature set", declared, digest));
  CLIENT_RETURN_IF_ERROR(CheckEdgesFinite(content.edge_attr, declared.File("file")));
  content.spec.set_graph(graph);
  content.spec.set_name(declared.name);
  content.spec.set_source_digest(digest);
  return content;
}

absl::StatusOr<ModelContent> ReadModelContent(const DeclaredResource& declared, const std::string& digest) {
  ModelContent content;
  CLIENT_ASSIGN_OR_RETURN(const std::string architecture, ReadFile(declared.File("architecture")));
  if (!IsUtf8(architecture)) return FileError(declared.File("architecture"), 0, "is not UTF-8 text; it must be JSON");
  CLIENT_ASSIGN_OR_RETURN(content.weights, ReadFile(declared.File("weights")));
  v1::UploadModelSpec& spec = content.spec;
  if (const std::string reference = declared.File("reference"); !reference.empty()) {
    CLIENT_ASSIGN_OR_RETURN(content.reference, ReadFile(reference));
    spec.mutable_reference()->set_graph(declared.Option("reference_graph", ""));
    spec.mutable_reference()->set_feature_set(declared.Option("reference_features", ""));
    spec.mutable_reference()->set_edge_feature_set(declared.Option("reference_edge_features", ""));
    double tolerance = 0;
    if (ParseDouble(declared.Option("tolerance", ""), &tolerance)) spec.mutable_reference()->set_tolerance(tolerance);
  }
  CLIENT_RETURN_IF_ERROR(CheckUnchanged("model", declared, digest));
  spec.set_name(declared.name);
  spec.set_architecture_json(architecture);
  spec.set_source_digest(digest);
  return content;
}

}  // namespace vicinal::client::cli
