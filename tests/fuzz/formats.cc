// SPDX-License-Identifier: Apache-2.0
// Files that users have, and the token file: errors are INVALID_ARGUMENT or NOT_FOUND, and what was read and written
// again reads as the same.
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>

#include "client/cpp/formats/edge_list.h"
#include "client/cpp/formats/graph_file.h"
#include "client/cpp/formats/id_map.h"
#include "client/cpp/formats/matrix_market.h"
#include "client/cpp/formats/not_finite.h"
#include "client/cpp/formats/npy.h"
#include "proto/tls/certificates.h"
#include "server/http/request.h"
#include "server/principals.h"
#include "server/read_token_file.h"
#include "tests/fuzz/target.h"

namespace vicinal::fuzz {
namespace {

const std::string kPath = "input";

void CheckFileError(const absl::Status& status) {
  FUZZ_CHECK(absl::IsInvalidArgument(status) || absl::IsNotFound(status), status.ToString());
  FUZZ_CHECK(!status.message().empty(), status.ToString());
}

void CheckArray(const client::Array& array) {
  const auto bytes = client::ByteSize(array.type, array.shape);
  FUZZ_CHECK(bytes.ok() && *bytes == static_cast<int64_t>(array.data.size()), client::ShapeToString(array.shape));
}

void Npy(std::string_view input) {
  const auto array = client::ParseNpy(input);
  if (!array.ok()) return CheckFileError(array.status());
  CheckArray(*array);
  const auto again = client::ParseNpy(client::SerializeNpy(*array));
  FUZZ_CHECK(again.ok(), again.status().ToString());
  FUZZ_CHECK(again->type == array->type && again->shape == array->shape && again->data == array->data,
             client::ShapeToString(array->shape));
  (void)client::ToFloats(*array);
  const auto ints = client::ToInts(*array);
  if (!ints.ok()) CheckFileError(ints.status());
}

void CheckGraph(const client::GraphData& graph) {
  CheckArray(graph.edge_index);
  FUZZ_CHECK(graph.edge_index.shape.size() == 2 && graph.edge_index.shape[0] == 2, "shape of edge_index");
  const auto ends = client::ToInts(graph.edge_index);
  FUZZ_CHECK(ends.ok(), ends.status().ToString());
  for (const int64_t end : *ends) FUZZ_CHECK(end >= 0 && end < graph.node_count, std::to_string(end));
  if (graph.features) (void)client::FindNotFinite(*graph.features);
}

void Npz(std::string_view input) {
  const std::string& path = InFile(input);
  if (const auto npz = client::Npz::Open(path); npz.ok()) {
    for (const std::string& name : npz->names()) {
      const auto array = npz->Read(name);
      if (array.ok()) CheckArray(*array);
      if (!array.ok()) CheckFileError(array.status());
    }
    if (const auto features = client::ReadFeatures(*npz, path); !features.ok()) CheckFileError(features.status());
  } else {
    CheckFileError(npz.status());
  }
  client::GraphFileOptions options;
  options.format = client::GraphFormat::kNpz;
  const auto graph = client::ReadGraphFile(path, options);
  graph.ok() ? CheckGraph(*graph) : CheckFileError(graph.status());
  if (const auto batch = client::ReadGraphBatch(path); !batch.ok()) CheckFileError(batch.status());
  if (const auto labels = client::ReadLabels(path, "y"); !labels.ok()) CheckFileError(labels.status());
  if (const auto mask = client::ReadMask(path, "test_mask"); !mask.ok()) CheckFileError(mask.status());
}

void CheckEdges(const absl::StatusOr<client::EdgeFile>& file) {
  if (!file.ok()) return CheckFileError(file.status());
  const client::Edges& edges = file->edges;
  FUZZ_CHECK(edges.targets.size() == edges.sources.size(), "targets");
  FUZZ_CHECK(edges.weights.empty() || edges.weights.size() == edges.sources.size(), "weights");
  if (file->node_count >= 0) {
    if (const auto ends = client::CheckEnds(edges, file->node_count, kPath); !ends.ok()) CheckFileError(ends);
  }
  if (file->ids) {
    for (int64_t node = 0; node < file->ids->size(); ++node) {
      FUZZ_CHECK(file->ids->NodeOf(file->ids->IdOf(node)) == node, file->ids->IdOf(node));
    }
  }
  client::Edges both = edges;
  client::AddReverseEdges(&both);
  FUZZ_CHECK(client::AddReverseEdges(&both) == 0, "reverse edges are added once");
}

// The first byte chooses the options, since whoever has a file chooses them.
void EdgeList(std::string_view input) {
  client::EdgeListOptions options;
  if (!input.empty()) {
    const unsigned choice = static_cast<unsigned char>(input[0]);
    options.titles = static_cast<client::Titles>(choice % 3);
    options.comments = static_cast<client::Comments>(choice / 3 % 3);
    if (choice / 9 % 3 == 1) options.node_count = 10;
    if (choice / 9 % 3 == 2) options.feature_rows = 10;
    input.remove_prefix(1);
  }
  CheckEdges(client::ParseEdgeList(input, kPath, options));
}

void MatrixMarket(std::string_view input) {
  (void)client::HasMatrixMarketBanner(input);
  for (const auto rows : {client::MatrixRows::kTarget, client::MatrixRows::kSource}) {
    CheckEdges(client::ParseMatrixMarket(input, kPath, rows));
  }
}

// As a user gives it: the format is found out.
void GraphFile(std::string_view input) {
  const auto graph = client::ReadGraphFile(InFile(input), {});
  graph.ok() ? CheckGraph(*graph) : CheckFileError(graph.status());
}

void IdsFile(std::string_view input) {
  const std::string& path = InFile(input);
  for (const bool titled : {false, true}) {
    const auto ids = client::IdMap::Load(path, titled);
    if (!ids.ok()) {
      CheckFileError(ids.status());
      continue;
    }
    const std::string copy = path + ".copy";
    FUZZ_CHECK(ids->Save(copy, "fuzz").ok(), "Save");
    const auto again = client::IdMap::Load(copy);
    std::remove(copy.c_str());
    FUZZ_CHECK(again.ok(), again.status().ToString());
    FUZZ_CHECK(again->Digest() == ids->Digest() && again->size() == ids->size(), "digest");
  }
}

void TokenFile(std::string_view input) {
  const auto token = server::ReadTokenFile(InFile(input), "admin_token_file", std::chrono::milliseconds(0));
  if (!token.ok()) return CheckError(token.status());
  FUZZ_CHECK(!token->empty(), "token");
  for (const char c : *token) FUZZ_CHECK(c > 0x20 && c < 0x7f, *token);
  FUZZ_CHECK(input.find(*token) != std::string_view::npos, *token);
}

// A request does not depend on what comes after it.
void HttpBytes(std::string_view input) {
  const auto request = server::ParseRequest(input);
  if (!request) {
    FUZZ_CHECK(input.size() < server::kMostHeadBytes + server::kMostFormBytes, "waits for more than is allowed");
    return;
  }
  if (request->refused != 0) {
    FUZZ_CHECK(request->refused >= 400 && request->refused < 600, std::to_string(request->refused));
    return;
  }
  FUZZ_CHECK(!request->method.empty() && request->path.find('\0') == std::string::npos, request->path);
  FUZZ_CHECK(request->body.size() <= server::kMostFormBytes, "body");
  const auto longer = server::ParseRequest(std::string(input) + "GET / HTTP/1.1\r\n");
  FUZZ_CHECK(longer && longer->path == request->path && longer->body == request->body, request->path);
}

// What was read and written reads the same.
void PrincipalsFile(std::string_view input) {
  const auto principals = server::ParsePrincipals(input);
  if (!principals.ok()) return CheckError(principals.status());
  FUZZ_CHECK(server::CheckPrincipals(*principals).ok(), "credentials of two");
  std::string text;
  for (const server::Principal& principal : *principals) {
    const std::string role = principal.interactive ? std::string(server::NameOf(principal.role)) : "batch";
    const std::string begin = principal.name + " " + role + " ";
    for (const std::string& token : principal.tokens) text += begin + "token:" + token + "\n";
    for (const std::string& name : principal.certificate_names) text += begin + name + "\n";
  }
  const auto again = server::ParsePrincipals(text);
  FUZZ_CHECK(again.ok(), again.status().ToString());
  FUZZ_CHECK(*again == *principals, text);
}

// A certificate that a proxy hands over.
void CertificateDer(std::string_view input) {
  const auto certificate = tls::ParseDer(input);
  if (!certificate.ok()) return;
  for (const std::string& name : certificate->names) {
    for (const char c : name) FUZZ_CHECK(c > 0x20 && c < 0x7f, name);
  }
}

}  // namespace

std::vector<Target> FormatTargets() {
  return {{"npy", "npy", Npy},
          {"npz", "npz", Npz},
          {"edge_list", "edge_list", EdgeList},
          {"matrix_market", "matrix_market", MatrixMarket},
          {"graph_file", "graph_file", GraphFile},
          {"ids_file", "ids_file", IdsFile},
          {"token_file", "token_file", TokenFile},
          {"principals_file", "principals_file", PrincipalsFile},
          {"http_request", "http_request", HttpBytes},
          {"certificate", "certificate", CertificateDer}};
}

}  // namespace vicinal::fuzz
