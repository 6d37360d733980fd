// SPDX-License-Identifier: Apache-2.0
// Edges while a text file is being read, before they are packed for the wire; and the graph that every reader makes.
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

  int64_t size() const { return static_cast<int64_t>(sources.size()); }
};

// Adds the reverse of every edge whose reverse is not there yet, with its weight, so that an undirected edge stands
// once in each direction. Returns how many were added.
int64_t AddReverseEdges(Edges* edges);

// Refuses the first edge that has an end outside 0..node_count-1, with its number and both ids as the file has them:
// narrowed, an id could become another node's. `path` is for the message.
absl::Status CheckEnds(const Edges& edges, int64_t node_count, const std::string& path);

// [2, E], int32 where node_count allows it, else int64. REQUIRES CheckEnds.
Array PackEdgeIndex(const Edges& edges, int64_t node_count);
// REQUIRES shape [2, E] of an integer type (ToInts succeeds).
Edges UnpackEdgeIndex(const std::vector<int64_t>& values);

// What a reader of graphs answers with. node_count is -1 while nothing in the file tells it.
struct EdgeFile {
  Edges edges;
  int64_t node_count = -1;
  // Set when the file's ids are not 0..N-1.
  std::optional<IdMap> ids;
  // What was decided, in sentences for the user.
  std::vector<std::string> notes;
};

}  // namespace vicinal::client

#endif  // VICINAL_CLIENT_CPP_FORMATS_EDGES_H_
