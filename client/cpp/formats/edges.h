// SPDX-License-Identifier: Apache-2.0
// Edges of a file that is being read, before they are packed into tensors; and the result of the graph readers.
#ifndef VICINAL_CLIENT_CPP_FORMATS_EDGES_H_
#define VICINAL_CLIENT_CPP_FORMATS_EDGES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cpp/formats/array.h"
#include "client/cpp/formats/id_map.h"

namespace vicinal::client {

// Edge i goes from sources[i] to targets[i]; weights is empty or as long as the others.
struct Edges {
  std::vector<int64_t> sources;
  std::vector<int64_t> targets;
  std::vector<float> weights;
  // [E, feature_width], one row per edge; 0: none.
  std::vector<float> features = {};
  int64_t feature_width = 0;

  int64_t size() const { return static_cast<int64_t>(sources.size()); }
};

// Adds the missing reverse of each edge, with the same weight and features, so that an undirected edge exists in both
// directions. Returns the number of added edges.
int64_t AddReverseEdges(Edges* edges);

// INVALID_ARGUMENT if an edge has an end outside 0..node_count-1; names the first such edge and both ids. Must precede
// narrowing to int32, which could turn one id into another. `path` is for the message.
absl::Status CheckEnds(const Edges& edges, int64_t node_count, const std::string& path);

// [2, E], int32 if node_count allows it, otherwise int64. REQUIRES CheckEnds.
Array PackEdgeIndex(const Edges& edges, int64_t node_count);
// REQUIRES shape [2, E] of an integer type (ToInts succeeds).
Edges UnpackEdgeIndex(const std::vector<int64_t>& values);

// The result of a graph reader.
struct EdgeFile {
  Edges edges;
  // -1: the file does not state it.
  int64_t node_count = -1;
  // Set if the file's ids are not 0..N-1.
  std::optional<IdMap> ids;
  // Decisions of the reader, as sentences for the user.
  std::vector<std::string> notes;
};

}  // namespace vicinal::client

#endif  // VICINAL_CLIENT_CPP_FORMATS_EDGES_H_
