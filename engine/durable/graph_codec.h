// SPDX-License-Identifier: Apache-2.0
// Graphs and feature sets as versions of the state directory (docs/state.md, "Contents"). Reading restores what was
// written, bit for bit: nothing is renumbered, profiled or sorted again.
//
// Checksums find accidents, not malice. Reading therefore checks everything that kernels rely on: extents, indices,
// order within rows, that the permutation is one, that numbers are finite. Errors of reading: DATA_LOSS (STATE_DAMAGED)
// naming file and section; FAILED_PRECONDITION (STATE_FORMAT_TOO_NEW); those of the file system and of the device.
#ifndef VICINAL_ENGINE_DURABLE_GRAPH_CODEC_H_
#define VICINAL_ENGINE_DURABLE_GRAPH_CODEC_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "engine/api/resources.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/base/thread_pool.h"
#include "engine/device/device.h"
#include "engine/prepared/edge_matrix.h"
#include "engine/prepared/prepared_graph.h"
#include "engine/state/manifest.h"
#include "engine/state/state_directory.h"
#include "engine/store/graph_store.h"

namespace vicinal::durable {

// Asked now and then while a version is written: true if it is no longer wanted. Writing then ends with CANCELLED. May
// be empty.
using IsUnwanted = std::function<bool()>;

// Writes and publishes `graph` through `writer`, which must have been begun for it. Blocks until the version is
// durable. `before_publish` (may be empty) writes what shall become visible together with it; its error ends the write.
// Thread-safe with respect to users of the graph.
Status WriteGraph(const PreparedGraph& graph, state::VersionWriter& writer, const IsUnwanted& is_unwanted,
                  const std::function<Status()>& before_publish = {});

struct ReadGraphResult {
  std::shared_ptr<const PreparedGraph> graph;
  // The version had another numerics revision, which this build cannot continue: it adds in another order. 0: it kept
  // its revision.
  int64_t former_revision = 0;
};

// Bytes that ReadGraph keeps and, at most, needs meanwhile. From the manifest alone, for a memory reservation; never
// more than a small multiple of the bytes on disk, whatever the manifest claims.
StatusOr<int64_t> GraphBytesBound(const state::Manifest& manifest);
// `when_read` (may be empty) is called once the file is in memory, before it is checked: the disk is idle from then on.
StatusOr<ReadGraphResult> ReadGraph(const state::StateDirectory& directory, const state::Manifest& manifest,
                                    Device& device, ThreadPool* pool, const std::function<void()>& when_read = {});

// A feature set of a graph, of nodes or of edges; its reservation is not touched. Rows are kept in execution order.
Status WriteFeatures(const FeatureSet& set, Device& device, state::VersionWriter& writer,
                     const IsUnwanted& is_unwanted);
// Of the graph that a set belongs to.
struct GraphSize {
  int64_t nodes = 0, edges = 0;
};
// What the manifest says. Never fails: what is damaged is found when it is read.
FeatureSetResource DescribeFeatures(const state::Manifest& manifest, const GraphSize& graph);
// As GraphBytesBound. REQUIRES: graph.nodes > 0.
StatusOr<int64_t> FeatureBytesBound(const state::Manifest& manifest, const GraphSize& graph, const Device& device);

struct ReadFeaturesResult {
  // One of them, by the manifest's store.
  std::shared_ptr<const FeatureMatrix> matrix;
  std::shared_ptr<const EdgeMatrix> edges;
  WallTime create_time{};
  std::string source_digest;
};
StatusOr<ReadFeaturesResult> ReadFeatures(const state::StateDirectory& directory, const state::Manifest& manifest,
                                          int64_t num_nodes, Device& device, ThreadPool* pool);
// The same of a set of the edges of `graph`.
StatusOr<ReadFeaturesResult> ReadEdgeFeatures(const state::StateDirectory& directory, const state::Manifest& manifest,
                                              const PreparedGraph& graph, Device& device, ThreadPool* pool);
// Starts reading what ReadFeatures or ReadEdgeFeatures will read, and returns. Errors are left to that.
void PrefetchFeatures(const state::StateDirectory& directory, const state::Manifest& manifest);

}  // namespace vicinal::durable

#endif  // VICINAL_ENGINE_DURABLE_GRAPH_CODEC_H_
