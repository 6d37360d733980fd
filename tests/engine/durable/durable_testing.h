// SPDX-License-Identifier: Apache-2.0
// A state directory in memory, and graphs to keep in it.
#ifndef VICINAL_TESTS_ENGINE_DURABLE_DURABLE_TESTING_H_
#define VICINAL_TESTS_ENGINE_DURABLE_DURABLE_TESTING_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "engine/base/error.h"
#include "engine/prepare/prepare.h"
#include "engine/state/state_directory.h"
#include "engine/store/graph_store.h"
#include "tests/engine/graph/graph_testing.h"
#include "tests/engine/state/simulated_file_system.h"
#include "tests/support/generators.h"

namespace vicinal::durable {

// Directed, weighted, with loops, duplicates and nodes without edges.
inline EdgeList DirectedGraph() {
  EdgeList edges = RmatGraph(9, 3000, 5);
  for (int i = 0; i < 3; ++i) {
    edges.source.push_back(7);
    edges.target.push_back(7);
  }
  edges.weight.resize(edges.source.size());
  for (size_t i = 0; i < edges.weight.size(); ++i) edges.weight[i] = 0.25f * static_cast<float>(i % 13) - 1.0f;
  return edges;
}

// `edge_features`: features of each edge, all different.
inline std::shared_ptr<const PreparedGraph> MakePrepared(const EdgeList& edges, OrderKind order, Device& device,
                                                         int64_t edge_features = 0) {
  GraphSource source;
  source.name = "g";
  source.node_count = edges.num_nodes;
  source.edge_index = testing::EdgeTensor(edges);
  if (edges.weighted()) source.edge_weight = testing::FloatTensor({edges.num_edges()}, edges.weight);
  if (edge_features > 0) {
    std::vector<float> features(edges.num_edges() * edge_features);
    for (size_t i = 0; i < features.size(); ++i) features[i] = static_cast<float>(i) / 8.0f;
    source.edge_attr = testing::FloatTensor({edges.num_edges(), edge_features}, features);
  }
  source.order = order;
  source.ids_digest = "crc32c:0123abcd";
  source.source_digest = "sync-1:0123";
  PrepareContext context;
  context.device = &device;
  context.clock = &Clock::Real();
  context.stats = &StatsSink::Null();
  context.choose.caches = {int64_t{1} << 14, int64_t{1} << 18};
  auto prepared = PrepareGraph(std::move(source), 7, context);
  EXPECT_TRUE(prepared.ok()) << prepared.status();
  return prepared->graph;
}

// Features of two nodes.
inline std::shared_ptr<const FeatureMatrix> TwoRows(Device& device) {
  HostFeatures features;
  features.rows = 2;
  features.cols = 1;
  features.dense = {1, 2};
  return FeatureMatrix::Upload(features, device).value();
}

// Publishes a graph of two nodes in `graphs`, with `features` (null: none) as its default set. Returns its version.
inline int64_t PublishTwoNodes(const std::string& name, std::shared_ptr<const FeatureMatrix> features, Device& device,
                               GraphStore* graphs) {
  EdgeList edges;
  edges.num_nodes = 2;
  const auto version = graphs->BeginPrepare(name, true, 0, 2, 0);
  EXPECT_TRUE(version.ok()) << version.status();
  PreparedGraph::Parts parts = MakePrepared(edges, OrderKind::kNone, device)->parts();
  parts.name = name;
  parts.version = *version;
  graphs->FinishPrepare(name, *version, std::make_shared<const PreparedGraph>(std::move(parts), &device),
                        std::move(features));
  return *version;
}

inline std::unique_ptr<state::StateDirectory> OpenState(state::FileSystem* files) {
  state::StateDirectory::Options options;
  options.holder = {"host", 1, "2026-01-01T00:00:00Z", ""};
  auto opened = state::StateDirectory::Open(files, options);
  EXPECT_TRUE(opened.ok()) << opened.status();
  return *std::move(opened);
}

// The only published version of that store.
inline state::Manifest OnlyVersion(const state::StateDirectory& directory, state::Store store) {
  const auto listing = directory.List();
  EXPECT_TRUE(listing.ok()) << listing.status();
  EXPECT_TRUE(listing->problems.empty());
  for (const state::Manifest& manifest : listing->published) {
    if (manifest.id.store == store) return manifest;
  }
  ADD_FAILURE() << "no version is published";
  return {};
}

inline std::string ReasonOf(const Status& status) {
  const auto detail = DetailOf(status);
  return detail ? detail->reason : "";
}

}  // namespace vicinal::durable

#endif  // VICINAL_TESTS_ENGINE_DURABLE_DURABLE_TESTING_H_
