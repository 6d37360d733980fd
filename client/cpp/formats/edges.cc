// SPDX-License-Identifier: Apache-2.0
// Reversing with a hash set of the edges that are there: O(E) time, 16 bytes an edge while it runs.
#include "client/cpp/formats/edges.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/formats/files.h"

namespace vicinal::client {

int64_t AddReverseEdges(Edges* edges) {
  const int64_t count = edges->size();
  absl::flat_hash_set<std::pair<int64_t, int64_t>> there;
  there.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) there.emplace(edges->sources[i], edges->targets[i]);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t source = edges->sources[i], target = edges->targets[i];
    if (!there.emplace(target, source).second) continue;
    edges->sources.push_back(target);
    edges->targets.push_back(source);
    if (!edges->weights.empty()) edges->weights.push_back(edges->weights[i]);
    for (int64_t a = 0; a < edges->feature_width; ++a) {
      edges->features.push_back(edges->features[i * edges->feature_width + a]);
    }
  }
  return edges->size() - count;
}

absl::Status CheckEnds(const Edges& edges, int64_t node_count, const std::string& path) {
  const auto is_node = [&](int64_t id) { return id >= 0 && id < node_count; };
  for (int64_t i = 0; i < edges.size(); ++i) {
    const int64_t source = edges.sources[i], target = edges.targets[i];
    if (is_node(source) && is_node(target)) continue;
    return FileError(
        path, 0,
        absl::StrCat("edge ", i, " (", source, " -> ", target, ") has an end ",
                     node_count > 0 ? absl::StrCat("outside 0..", node_count - 1) : "in a graph without nodes"));
  }
  return absl::OkStatus();
}

Array PackEdgeIndex(const Edges& edges, int64_t node_count) {
  const auto pack = [&](auto zero) {
    std::vector<decltype(zero)> values;
    values.reserve(edges.sources.size() * 2);
    for (const int64_t node : edges.sources) values.push_back(static_cast<decltype(zero)>(node));
    for (const int64_t node : edges.targets) values.push_back(static_cast<decltype(zero)>(node));
    return MakeArray(values, {2, edges.size()});
  };
  constexpr int64_t kInt32Nodes = int64_t{1} << 31;
  return node_count <= kInt32Nodes ? pack(int32_t{0}) : pack(int64_t{0});
}

Edges UnpackEdgeIndex(const std::vector<int64_t>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  Edges edges;
  edges.sources.assign(values.begin(), middle);
  edges.targets.assign(middle, values.end());
  return edges;
}

}  // namespace vicinal::client
