// SPDX-License-Identifier: Apache-2.0
// What was written comes back bit for bit; what is damaged behind a valid checksum is found.
#include "engine/durable/graph_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/durable/graph_metadata.h"
#include "engine/durable/sections.h"
#include "engine/durable/version_files.h"
#include "tests/engine/durable/durable_testing.h"

namespace vicinal::durable {
namespace {

using ::testing::HasSubstr;

const state::VersionId kGraph{state::Store::kGraphs, "g", 7, "", 0};
const state::VersionId kFeatures{state::Store::kFeatures, "default", 3, "g", 7};

class GraphCodecTest : public ::testing::Test {
 protected:
  void Write(const PreparedGraph& graph) {
    auto writer = directory_->BeginVersion(kGraph);
    ASSERT_TRUE(writer.ok()) << writer.status();
    const Status written = WriteGraph(graph, **writer, {});
    ASSERT_TRUE(written.ok()) << written;
  }
  StatusOr<ReadGraphResult> Read(ThreadPool* pool = nullptr) {
    return ReadGraph(*directory_, OnlyVersion(*directory_, state::Store::kGraphs), *device_, pool);
  }
  void WriteSet(const FeatureMatrix& features) {
    auto writer = directory_->BeginVersion(kFeatures);
    ASSERT_TRUE(writer.ok()) << writer.status();
    FeatureSet set;
    set.create_time = WallTime(std::chrono::seconds(5));
    set.source_digest = "sync-2:f";
    set.matrix = std::shared_ptr<const FeatureMatrix>(std::shared_ptr<const void>(), &features);
    const Status written = WriteFeatures(set, *device_, **writer, {});
    ASSERT_TRUE(written.ok()) << written;
  }
  StatusOr<ReadFeaturesResult> ReadSet(int64_t num_nodes) {
    return ReadFeatures(*directory_, OnlyVersion(*directory_, state::Store::kFeatures), num_nodes, *device_, nullptr);
  }

  std::unique_ptr<Device> device_ = MakeCpuDevice(2);
  state::SimulatedFileSystem files_;
  std::unique_ptr<state::StateDirectory> directory_ = OpenState(&files_);
};

void ExpectSameLocality(const LocalityProfile& a, const LocalityProfile& b) {
  EXPECT_EQ(a.inside_window, b.inside_window);
  EXPECT_EQ(a.mean_span, b.mean_span);
  EXPECT_EQ(a.inside_window_and_community, b.inside_window_and_community);
  EXPECT_EQ(a.tile_density, b.tile_density);
  for (size_t i = 0; i < kReuseWidths.size(); ++i) {
    EXPECT_EQ(a.reuse[i].l2, b.reuse[i].l2);
    EXPECT_EQ(a.reuse[i].llc, b.reuse[i].llc);
  }
}

void ExpectSameProfile(const GraphProfile& a, const GraphProfile& b) {
  EXPECT_EQ(a.num_nodes, b.num_nodes);
  EXPECT_EQ(a.num_edges, b.num_edges);
  EXPECT_EQ(a.mean_degree, b.mean_degree);
  EXPECT_EQ(a.degree_deviation, b.degree_deviation);
  EXPECT_EQ(a.max_degree, b.max_degree);
  EXPECT_EQ(a.degree_quantiles, b.degree_quantiles);
  EXPECT_EQ(a.isolated_nodes, b.isolated_nodes);
  EXPECT_EQ(a.self_loops, b.self_loops);
  EXPECT_EQ(a.duplicate_edges, b.duplicate_edges);
  EXPECT_EQ(a.symmetric, b.symmetric);
  EXPECT_EQ(a.window, b.window);
  EXPECT_EQ(a.caches.l2_bytes, b.caches.l2_bytes);
  EXPECT_EQ(a.caches.llc_bytes, b.caches.llc_bytes);
  EXPECT_EQ(a.communities.known, b.communities.known);
  EXPECT_EQ(a.communities.count, b.communities.count);
  EXPECT_EQ(a.communities.modularity, b.communities.modularity);
  EXPECT_EQ(a.communities.mean_size, b.communities.mean_size);
  EXPECT_EQ(a.communities.max_size, b.communities.max_size);
  EXPECT_EQ(a.communities.size_quantiles, b.communities.size_quantiles);
  EXPECT_EQ(a.communities.inside, b.communities.inside);
  EXPECT_EQ(a.communities.density, b.communities.density);
  ExpectSameLocality(a.before, b.before);
  ExpectSameLocality(a.after, b.after);
}

void ExpectSameGraph(const PreparedGraph::Parts& a, const PreparedGraph::Parts& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.version, b.version);
  EXPECT_EQ(a.ids_digest, b.ids_digest);
  EXPECT_EQ(a.source_digest, b.source_digest);
  EXPECT_EQ(a.numerics_revision, b.numerics_revision);
  EXPECT_EQ(a.requested_order, b.requested_order);
  EXPECT_EQ(a.order, b.order);
  EXPECT_EQ(a.order_reason, b.order_reason);
  EXPECT_EQ(a.csr.num_rows, b.csr.num_rows);
  EXPECT_EQ(a.csr.num_cols, b.csr.num_cols);
  EXPECT_EQ(a.csr.row_ptr, b.csr.row_ptr);
  EXPECT_EQ(a.csr.col, b.csr.col);
  EXPECT_EQ(a.csr.value, b.csr.value);
  EXPECT_EQ(a.edge_feature_width, b.edge_feature_width);
  EXPECT_EQ(a.edge_attr, b.edge_attr);
  EXPECT_EQ(a.permutation.is_identity(), b.permutation.is_identity());
  EXPECT_EQ(a.permutation.new_of_old(), b.permutation.new_of_old());
  EXPECT_EQ(a.permutation.old_of_new(), b.permutation.old_of_new());
  EXPECT_EQ(a.blocks, b.blocks);
  EXPECT_EQ(a.create_time, b.create_time);
  ASSERT_EQ(a.stages.size(), b.stages.size());
  for (size_t i = 0; i < a.stages.size(); ++i) {
    EXPECT_EQ(a.stages[i].stage, b.stages[i].stage);
    EXPECT_EQ(a.stages[i].seconds, b.stages[i].seconds);
  }
  ExpectSameProfile(a.profile, b.profile);
}

class GraphOfEveryOrder : public GraphCodecTest, public ::testing::WithParamInterface<OrderKind> {};

TEST_P(GraphOfEveryOrder, ComesBackBitForBit) {
  const auto graph = MakePrepared(DirectedGraph(), GetParam(), *device_);
  Write(*graph);
  ThreadPool pool(2);
  const auto read = Read(&pool);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->former_revision, 0);
  ExpectSameGraph(read->graph->parts(), graph->parts());
}

INSTANTIATE_TEST_SUITE_P(Orders, GraphOfEveryOrder,
                         ::testing::Values(OrderKind::kNone, OrderKind::kDegree, OrderKind::kRcm, OrderKind::kCommunity,
                                           OrderKind::kAuto),
                         [](const auto& info) { return std::string(ToString(info.param)); });

TEST_F(GraphCodecTest, FeaturesOfEdgesComeBackBitForBit) {
  const auto graph = MakePrepared(DirectedGraph(), OrderKind::kRcm, *device_, 5);
  ASSERT_EQ(graph->edge_feature_width(), 5);
  Write(*graph);
  const auto bound = GraphBytesBound(OnlyVersion(*directory_, state::Store::kGraphs));
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_GE(*bound, graph->size_bytes());
  EXPECT_LE(*bound, 2 * graph->size_bytes());
  ThreadPool pool(2);
  const auto read = Read(&pool);
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectSameGraph(read->graph->parts(), graph->parts());
}

TEST_F(GraphCodecTest, OneNodeWithoutEdges) {
  EdgeList edges;
  edges.num_nodes = 1;
  const auto graph = MakePrepared(edges, OrderKind::kNone, *device_);
  Write(*graph);
  const auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectSameGraph(read->graph->parts(), graph->parts());
}

TEST_F(GraphCodecTest, AVersionThatIsNoLongerWantedIsNotPublished) {
  const auto graph = MakePrepared(DirectedGraph(), OrderKind::kNone, *device_);
  auto writer = directory_->BeginVersion(kGraph);
  ASSERT_TRUE(writer.ok());
  EXPECT_EQ(WriteGraph(*graph, **writer, [] { return true; }).code(), StatusCode::kCancelled);
  writer->reset();
  EXPECT_TRUE(directory_->List()->published.empty());
}

TEST_F(GraphCodecTest, ARevisionThatThisBuildCannotContinueIsReported) {
  PreparedGraph::Parts parts = MakePrepared(DirectedGraph(), OrderKind::kRcm, *device_)->parts();
  parts.numerics_revision = 4711;
  Write(PreparedGraph(std::move(parts), device_.get()));
  const auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->former_revision, 4711);
  EXPECT_EQ(read->graph->parts().numerics_revision, NumericsRevision(OrderKind::kRcm));
}

TEST_F(GraphCodecTest, TheBoundCoversWhatIsKept) {
  const auto graph = MakePrepared(DirectedGraph(), OrderKind::kCommunity, *device_);
  Write(*graph);
  const auto bound = GraphBytesBound(OnlyVersion(*directory_, state::Store::kGraphs));
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_GE(*bound, graph->size_bytes());
  EXPECT_LE(*bound, 2 * graph->size_bytes());
}

// --- arrays that no writer of ours wrote, behind valid checksums ---

struct Arrays {
  std::vector<int64_t> row_ptr = {0, 1, 3, 3};
  std::vector<int32_t> col = {2, 0, 1};
  std::vector<float> value = {1.0f, 2.0f, 3.0f};
  std::vector<float> edge_attr = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f};
  int64_t edge_features = 2;  // as the metadata says
  std::vector<int32_t> new_of_old = {1, 2, 0};
  std::vector<int64_t> blocks = {0, 2, 3};
  int64_t nodes = 3, edges = 3;
};

struct BadArrays {
  const char* name;
  std::function<void(Arrays&)> change;
  const char* message;
};

class MaliciousGraph : public GraphCodecTest, public ::testing::WithParamInterface<BadArrays> {
 protected:
  void WriteArrays(const Arrays& arrays) {
    const auto extent = [](const auto& values) { return std::vector<int64_t>{static_cast<int64_t>(values.size())}; };
    auto writer = directory_->BeginVersion(kGraph);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(WriteFile(**writer, "graph",
                          {{{"row_ptr", DataType::kInt64, extent(arrays.row_ptr)}, BytesOf(arrays.row_ptr)},
                           {{"col", DataType::kInt32, extent(arrays.col)}, BytesOf(arrays.col)},
                           {{"value", DataType::kFloat32, extent(arrays.value)}, BytesOf(arrays.value)},
                           {{"edge_attr", DataType::kFloat32, {3, static_cast<int64_t>(arrays.edge_attr.size()) / 3}},
                            BytesOf(arrays.edge_attr)},
                           {{"new_of_old", DataType::kInt32, extent(arrays.new_of_old)}, BytesOf(arrays.new_of_old)},
                           {{"blocks", DataType::kInt64, extent(arrays.blocks)}, BytesOf(arrays.blocks)}},
                          {})
                    .ok());
    GraphMetadata metadata;
    metadata.node_count = metadata.profile.num_nodes = arrays.nodes;
    metadata.edge_count = metadata.profile.num_edges = arrays.edges;
    metadata.weighted = true;
    metadata.edge_feature_width = arrays.edge_features;
    metadata.numerics_revision = NumericsRevision(OrderKind::kNone);
    ASSERT_TRUE((*writer)->Publish(EncodeGraphMetadata(metadata)).ok());
  }
};

TEST_F(MaliciousGraph, SoundArraysAreRead) {
  WriteArrays(Arrays());
  const auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->graph->parts().csr.col, Arrays().col);
}

TEST_P(MaliciousGraph, IsFound) {
  Arrays arrays;
  GetParam().change(arrays);
  WriteArrays(arrays);
  const auto read = Read();
  EXPECT_EQ(read.status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(ReasonOf(read.status()), "STATE_DAMAGED");
  EXPECT_THAT(std::string(read.status().message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Arrays, MaliciousGraph,
    ::testing::Values(
        BadArrays{"FirstOffset", [](Arrays& a) { a.row_ptr[0] = -1; }, "section 'row_ptr'"},
        BadArrays{"FallingOffsets",
                  [](Arrays& a) {
                    a.row_ptr = {0, 3, 1, 3};
                  },
                  "section 'row_ptr'"},
        BadArrays{"LastOffset", [](Arrays& a) { a.row_ptr[3] = 4; }, "section 'row_ptr'"},
        BadArrays{"HugeOffset", [](Arrays& a) { a.row_ptr[1] = int64_t{1} << 60; }, "section 'row_ptr'"},
        BadArrays{"ShortOffsets",
                  [](Arrays& a) {
                    a.row_ptr = {0, 3, 3};
                  },
                  "[4] expected"},
        BadArrays{"NegativeNode", [](Arrays& a) { a.col[0] = -1; }, "section 'col'"},
        BadArrays{"NodeOutOfRange", [](Arrays& a) { a.col[2] = 3; }, "section 'col'"},
        BadArrays{"UnsortedRow",
                  [](Arrays& a) {
                    a.col = {2, 1, 0};
                  },
                  "section 'col'"},
        BadArrays{"MissingColumns", [](Arrays& a) { a.col.pop_back(); }, "[3] expected"},
        BadArrays{"NotANumber", [](Arrays& a) { a.value[1] = std::nanf(""); }, "section 'value'"},
        BadArrays{"InfiniteWeight", [](Arrays& a) { a.value[2] = std::numeric_limits<float>::infinity(); },
                  "section 'value'"},
        BadArrays{"FeatureThatIsNoNumber", [](Arrays& a) { a.edge_attr[5] = std::nanf(""); }, "section 'edge_attr'"},
        BadArrays{"FewFeatures", [](Arrays& a) { a.edge_attr.resize(3); }, "[3, 2] expected"},
        BadArrays{"HugeFeatures", [](Arrays& a) { a.edge_features = 2'000'000'000; }, "fewer bytes"},
        BadArrays{"ImpossibleFeatures", [](Arrays& a) { a.edge_features = int64_t{1} << 40; }, "edge_feature_width"},
        BadArrays{"RepeatedNode",
                  [](Arrays& a) {
                    a.new_of_old = {1, 1, 0};
                  },
                  "section 'new_of_old'"},
        BadArrays{"PermutationOutOfRange",
                  [](Arrays& a) {
                    a.new_of_old = {1, 3, 0};
                  },
                  "section 'new_of_old'"},
        BadArrays{"ShortPermutation",
                  [](Arrays& a) {
                    a.new_of_old = {1, 0};
                  },
                  "section 'new_of_old'"},
        BadArrays{"FallingBlocks",
                  [](Arrays& a) {
                    a.blocks = {0, 4, 3};
                  },
                  "section 'blocks'"},
        BadArrays{"TooManyBlocks", [](Arrays& a) { a.blocks = {0, 1, 2, 3, 3, 3}; }, "section 'blocks'"},
        BadArrays{"MoreNodesThanBytes", [](Arrays& a) { a.nodes = int64_t{1} << 30; },
                  "fewer bytes than its nodes and edges take"},
        BadArrays{"MoreEdgesThanBytes", [](Arrays& a) { a.edges = std::numeric_limits<int64_t>::max(); },
                  "fewer bytes"}),
    [](const auto& info) { return std::string(info.param.name); });

// --- features ---

HostFeatures Dense(int64_t rows, int64_t cols) {
  HostFeatures features;
  features.rows = rows;
  features.cols = cols;
  for (int64_t i = 0; i < rows * cols; ++i) features.dense.push_back(0.5f * static_cast<float>(i % 101) - 20.0f);
  return features;
}

TEST_F(GraphCodecTest, DenseFeaturesComeBackBitForBit) {
  const auto graph = MakePrepared(DirectedGraph(), OrderKind::kNone, *device_);
  Write(*graph);
  const HostFeatures features = Dense(graph->num_nodes(), 37);
  WriteSet(**FeatureMatrix::Upload(features, *device_));
  const auto read = ReadSet(graph->num_nodes());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->create_time, WallTime(std::chrono::seconds(5)));
  ASSERT_FALSE(read->matrix->sparse());
  const ConstMatrixView view = read->matrix->dense();
  ASSERT_EQ(view.rows, features.rows);
  ASSERT_EQ(view.cols, features.cols);
  EXPECT_EQ(std::memcmp(view.data, features.dense.data(), features.dense.size() * sizeof(float)), 0);
  EXPECT_EQ(read->matrix->size_bytes(), FeatureMatrix::BytesOn(features, *device_));
  EXPECT_GE(*FeatureBytesBound(OnlyVersion(*directory_, state::Store::kFeatures),
                               {graph->num_nodes(), graph->num_edges()}, *device_),
            features.size_bytes());
}

HostFeatures Sparse() {
  HostFeatures features;
  features.sparse = true;
  features.rows = 3;
  features.cols = 5;
  features.csr = {3, 5, {0, 2, 2, 3}, {1, 4, 0}, {1.5f, -2.0f, 3.0f}};
  return features;
}

TEST_F(GraphCodecTest, SparseFeaturesComeBackBitForBit) {
  EdgeList edges;
  edges.num_nodes = 3;
  Write(*MakePrepared(edges, OrderKind::kNone, *device_));
  const HostFeatures features = Sparse();
  WriteSet(**FeatureMatrix::Upload(features, *device_));
  const auto read = ReadSet(3);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_TRUE(read->matrix->sparse());
  EXPECT_EQ(read->matrix->cols(), 5);
  const CsrView csr = read->matrix->csr();
  ASSERT_EQ(csr.nnz, 3);
  EXPECT_EQ(std::vector<int64_t>(csr.row_ptr, csr.row_ptr + 4), features.csr.row_ptr);
  EXPECT_EQ(std::vector<int32_t>(csr.col, csr.col + 3), features.csr.col);
  EXPECT_EQ(std::vector<float>(csr.value, csr.value + 3), features.csr.value);
}

TEST_F(GraphCodecTest, SparseFeaturesThatAreAllOneHaveNoValues) {
  EdgeList edges;
  edges.num_nodes = 3;
  Write(*MakePrepared(edges, OrderKind::kNone, *device_));
  HostFeatures features = Sparse();
  features.csr.value.clear();
  WriteSet(**FeatureMatrix::Upload(features, *device_));
  const auto read = ReadSet(3);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->matrix->csr().value, nullptr);
  EXPECT_EQ(std::vector<int32_t>(read->matrix->csr().col, read->matrix->csr().col + 3), features.csr.col);
  EXPECT_EQ(read->matrix->size_bytes(), FeatureMatrix::BytesOn(features, *device_));
}

TEST_F(GraphCodecTest, UnsoundFeaturesAreFound) {
  EdgeList edges;
  edges.num_nodes = 3;
  Write(*MakePrepared(edges, OrderKind::kNone, *device_));
  HostFeatures features = Sparse();
  features.csr.col = {4, 4, 0};  // twice in a row
  WriteSet(**FeatureMatrix::Upload(features, *device_));
  const auto read = ReadSet(3);
  EXPECT_EQ(read.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("section 'indices'"));
  EXPECT_EQ(ReadSet(4).status().code(), StatusCode::kDataLoss) << "of a graph with another number of nodes";
}

TEST_F(GraphCodecTest, FeaturesThatAreNotFiniteAreFound) {
  EdgeList edges;
  edges.num_nodes = 3;
  Write(*MakePrepared(edges, OrderKind::kNone, *device_));
  HostFeatures features = Dense(3, 2);
  features.dense[4] = std::nanf("");
  WriteSet(**FeatureMatrix::Upload(features, *device_));
  EXPECT_THAT(std::string(ReadSet(3).status().message()), HasSubstr("section 'x': a number is not finite"));
}

// As the first builds wrote it, and builds before this one.
TEST_F(GraphCodecTest, MetadataOfFeaturesIsThatOfTheFormat) {
  EdgeList edges;
  edges.num_nodes = 3;
  Write(*MakePrepared(edges, OrderKind::kNone, *device_));
  WriteSet(**FeatureMatrix::Upload(Dense(3, 2), *device_));
  state::Manifest manifest = OnlyVersion(*directory_, state::Store::kFeatures);
  EXPECT_EQ(
      manifest.metadata,
      R"({"create_time_ns":5000000000,"entry_count":6,"feature_count":2,"source_digest":"sync-2:f","sparse":false})");
  const GraphSize size = {3, 0};
  manifest.metadata = R"({"create_time_ns":1,"entry_count":6,"feature_count":2,"sparse":false})";
  EXPECT_TRUE(FeatureBytesBound(manifest, size, *device_).ok()) << "the first builds wrote no digest";
  for (const char* const count : {"0", "2147483648", "-1", "\"2\""}) {
    manifest.metadata =
        absl::StrCat(R"({"create_time_ns":1,"entry_count":6,"feature_count":)", count, R"(,"sparse":false})");
    EXPECT_EQ(FeatureBytesBound(manifest, size, *device_).status().code(), StatusCode::kDataLoss) << count;
  }
}

// Blocks of 256 numbers are checked in another way than the rest, and parts of 2^18 each by some thread.
TEST(AreFiniteTest, FindsANumberInAnyPlace) {
  ThreadPool pool(2);
  for (const int64_t count : {1, 255, 256, 257, 1000, (1 << 18) + 300}) {
    std::vector<float> values(count, std::numeric_limits<float>::max());
    values[count / 2] = -std::numeric_limits<float>::max();
    values[count / 3] = std::numeric_limits<float>::denorm_min();
    EXPECT_TRUE(AreFinite(values.data(), count, &pool));
    EXPECT_TRUE(AreFinite(values.data(), count, nullptr));
    const float inf = std::numeric_limits<float>::infinity();
    for (const float bad : {inf, -inf, std::nanf(""), -std::numeric_limits<float>::signaling_NaN()}) {
      for (int64_t at = 0; at < count; at += count < 2000 ? 1 : 9973) {
        const float good = std::exchange(values[at], bad);
        ASSERT_FALSE(AreFinite(values.data(), count, &pool)) << bad << " at " << at << " of " << count;
        values[at] = good;
      }
    }
  }
}

TEST_F(GraphCodecTest, TellsWhenTheDiskIsIdle) {
  Write(*MakePrepared(DirectedGraph(), OrderKind::kNone, *device_));
  int told = 0, reads_after = 0;
  files_.set_read_hook(
      [&](const std::string&, state::SimulatedFileSystem::Access, int64_t, int64_t) { reads_after += told; });
  const auto manifest = OnlyVersion(*directory_, state::Store::kGraphs);
  ASSERT_TRUE(ReadGraph(*directory_, manifest, *device_, nullptr, [&] { ++told; }).ok());
  EXPECT_EQ(told, 1);
  EXPECT_EQ(reads_after, 0);
  files_.XorByte("graphs/g/7/graph.vsec", state::kSectionAlignment + 100, 1);
  EXPECT_FALSE(ReadGraph(*directory_, manifest, *device_, nullptr, [&] { ++told; }).ok());
  EXPECT_EQ(told, 1) << "nothing comes after a damaged file";
}

TEST_F(GraphCodecTest, FeaturesArePrefetched) {
  EdgeList edges;
  edges.num_nodes = 3;
  Write(*MakePrepared(edges, OrderKind::kNone, *device_));
  WriteSet(**FeatureMatrix::Upload(Dense(3, 2), *device_));
  std::vector<std::pair<int64_t, int64_t>> asked;
  files_.set_read_hook([&](const std::string&, state::SimulatedFileSystem::Access access, int64_t offset, int64_t n) {
    if (access == state::SimulatedFileSystem::Access::kPrefetch) asked.emplace_back(offset, n);
  });
  const auto manifest = OnlyVersion(*directory_, state::Store::kFeatures);
  PrefetchFeatures(*directory_, manifest);
  EXPECT_EQ(asked, (std::vector<std::pair<int64_t, int64_t>>{{state::kSectionAlignment, 3 * 2 * 4}}));
  files_.Overwrite(
      "graphs/g/7/features/" + manifest.id.name + "/" + std::to_string(manifest.id.version) + "/features.vsec",
      "damaged");
  PrefetchFeatures(*directory_, manifest);  // reading it will say why
  EXPECT_EQ(asked.size(), 1);
}

// A set of the edges of `graph` with these numbers.
class EdgeSetCodecTest : public GraphCodecTest {
 protected:
  static constexpr char kFile[] = "graphs/g/7/edge_features/daily/3/features.vsec";

  void WriteEdges(const PreparedGraph& graph, std::vector<float> values, int64_t cols) {
    auto writer = directory_->BeginVersion({state::Store::kEdgeFeatures, "daily", 3, "g", 7});
    ASSERT_TRUE(writer.ok()) << writer.status();
    const auto edges = EdgeMatrix::Make(graph.parts().csr,
                                        std::make_shared<const std::vector<float>>(std::move(values)), cols, *device_);
    ASSERT_TRUE(edges.ok()) << edges.status();
    FeatureSet set;
    set.kind = FeatureKind::kEdges;
    set.create_time = WallTime(std::chrono::seconds(5));
    set.source_digest = "sync-2:e";
    set.edges = *edges;
    const Status written = WriteFeatures(set, *device_, **writer, {});
    ASSERT_TRUE(written.ok()) << written;
  }
  // A manifest of that metadata, over a file with those features.
  void WriteRaw(const std::string& metadata, std::vector<int64_t> shape, const std::vector<float>& values) {
    auto writer = directory_->BeginVersion({state::Store::kEdgeFeatures, "daily", 3, "g", 7});
    ASSERT_TRUE(writer.ok()) << writer.status();
    const Status file =
        WriteFile(**writer, "features", {{{"edge_attr", DataType::kFloat32, std::move(shape)}, BytesOf(values)}}, {});
    ASSERT_TRUE(file.ok()) << file;
    const Status published = (*writer)->Publish(metadata);
    ASSERT_TRUE(published.ok()) << published;
  }
  StatusOr<ReadFeaturesResult> ReadEdges(const PreparedGraph& graph) {
    return ReadEdgeFeatures(*directory_, OnlyVersion(*directory_, state::Store::kEdgeFeatures), graph, *device_,
                            nullptr);
  }
};

TEST_F(EdgeSetCodecTest, ComesBackBitForBit) {
  const auto graph = MakePrepared(DirectedGraph(), OrderKind::kRcm, *device_, 2);
  Write(*graph);
  EXPECT_EQ((*Read()).graph->parts().edge_order, graph->parts().edge_order);
  std::vector<float> values(static_cast<size_t>(graph->num_edges() * 3));
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.5f - static_cast<float>(i) / 64;
  WriteEdges(*graph, values, 3);
  const auto read = ReadEdges(*graph);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read->edges->host(), values);
  EXPECT_EQ(read->source_digest, "sync-2:e");
  EXPECT_EQ(read->create_time, WallTime(std::chrono::seconds(5)));
  const auto manifest = OnlyVersion(*directory_, state::Store::kEdgeFeatures);
  const GraphSize size = {graph->num_nodes(), graph->num_edges()};
  EXPECT_GE(*FeatureBytesBound(manifest, size, *device_), read->edges->size_bytes());
  const FeatureSetResource described = DescribeFeatures(manifest, size);
  EXPECT_EQ(described.kind, FeatureKind::kEdges);
  EXPECT_EQ(described.edge_count, graph->num_edges());
  EXPECT_EQ(described.feature_count, 3);
  EXPECT_EQ(described.source_digest, "sync-2:e");
  EXPECT_EQ(manifest.metadata, absl::StrCat(R"({"create_time_ns":5000000000,"edge_count":)", graph->num_edges(),
                                            R"(,"feature_count":3,"source_digest":"sync-2:e"})"));
}

TEST_F(EdgeSetCodecTest, WhatIsUnsoundIsFound) {
  const auto graph = MakePrepared(DirectedGraph(), OrderKind::kNone, *device_, 1);
  Write(*graph);
  const int64_t edges = graph->num_edges();
  const auto metadata = [](int64_t rows, int64_t cols) {
    return "{\"edge_count\":" + std::to_string(rows) + ",\"feature_count\":" + std::to_string(cols) +
           ",\"create_time_ns\":1,\"source_digest\":\"\"}";
  };
  const std::vector<float> values(static_cast<size_t>(edges), 1.0f);
  std::vector<float> broken = values;
  broken[static_cast<size_t>(edges) / 2] = std::numeric_limits<float>::infinity();
  const std::vector<std::tuple<std::string, std::vector<int64_t>, std::vector<float>>> cases = {
      {metadata(edges - 1, 1), {edges, 1}, values},                              // another number of edges
      {metadata(edges, 0), {edges, 1}, values},                                  // no columns
      {metadata(edges, int64_t{1} << 40), {edges, 1}, values},                   // more than nodes may be
      {metadata(edges, (int64_t{1} << 31) - 1), {edges, 1}, values},             // more than the file has
      {metadata(edges, 1), {edges - 1, 1}, {values.begin() + 1, values.end()}},  // the section has other rows
      {metadata(edges, 1), {edges}, values},                                     // or no columns
      {metadata(edges, 1), {edges, 1}, broken},
      {"{}", {edges, 1}, values},
  };
  for (const auto& [text, shape, numbers] : cases) {
    WriteRaw(text, shape, numbers);
    const auto read = ReadEdges(*graph);
    EXPECT_EQ(read.status().code(), StatusCode::kDataLoss) << text << read.status();
    ASSERT_TRUE(
        directory_->Remove({state::Store::kEdgeFeatures, "daily", 3, "g", 7}, state::StateDirectory::Data::kDelete)
            .ok());
  }
  WriteRaw(metadata(edges, 1), {edges, 1}, values);
  ASSERT_TRUE(ReadEdges(*graph).ok());
  files_.XorByte(kFile, state::kSectionAlignment + 100, 1);
  EXPECT_EQ(ReadEdges(*graph).status().code(), StatusCode::kDataLoss);
}

TEST_F(EdgeSetCodecTest, AGraphOfAnEarlierFormatHasNoOrderOfEdges) {
  PreparedGraph::Parts parts = MakePrepared(DirectedGraph(), OrderKind::kRcm, *device_, 2)->parts();
  parts.edge_order.clear();  // as builds before format 1.1 wrote it
  Write(PreparedGraph(std::move(parts), device_.get()));
  const auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_FALSE(read->graph->has_edge_order());
}

TEST_F(GraphCodecTest, ADamagedByteIsFound) {
  const auto graph = MakePrepared(DirectedGraph(), OrderKind::kNone, *device_);
  Write(*graph);
  files_.XorByte("graphs/g/7/graph.vsec", state::kSectionAlignment + 100, 1);
  const auto read = Read();
  EXPECT_EQ(read.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("graph.vsec"));
}

}  // namespace
}  // namespace vicinal::durable
