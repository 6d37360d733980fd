// SPDX-License-Identifier: Apache-2.0
// Features of edges: what is refused, and why; their order; the means that added self-loops may have, against sums over
// the edge list.
#include "engine/graph/edge_features.h"

#include <limits>
#include <vector>

#include "tests/engine/graph/graph_testing.h"

namespace vicinal {
namespace {

using testing::ExpectRefused;
using testing::FloatTensor;

TEST(CheckEdgeFeatures, NamesTheFault) {
  EXPECT_EQ(*CheckEdgeFeatures(FloatTensor({2, 3}, {1, 2, 3, 4, 5, 6}).view(), 2), 3);
  EXPECT_EQ(*CheckEdgeFeatures(FloatTensor({0, 3}, {}).view(), 0), 3);
  EXPECT_EQ(*CheckEdgeFeatures(FloatTensor({0, 2'000'000'000}, {}).view(), 0), 2'000'000'000);  // takes no memory
  const auto refused = [](const HostTensor& tensor, int64_t edges, const std::string& message) {
    ExpectRefused(CheckEdgeFeatures(tensor.view(), edges), "edge_attr", message);
  };
  refused(FloatTensor({2, 1}, {1, 2}), 3, "edge_attr has 2 rows, but edge_index has 3 edges");
  refused(FloatTensor({2, 0}, {}), 2, "edge_attr has 0 columns");
  refused(FloatTensor({2}, {1, 2}), 2, "edge_attr");
  refused(FloatTensor({2, 2}, {1, 2, 3}), 2, "edge_attr");
  refused(testing::Int32Tensor({1, 1}, {1}), 1, "edge_attr");
  refused(FloatTensor({2, 2}, {1, 2, 3, std::numeric_limits<float>::infinity()}), 2, "edge_attr[1, 1] is inf");
  refused(FloatTensor({1, 1}, {std::numeric_limits<float>::quiet_NaN()}), 1, "edge_attr[0, 0] is nan");
}

TEST(CheckEdgeFeatureWidth, AModelAndAGraphMustAgree) {
  EXPECT_TRUE(CheckEdgeFeatureWidth(0, 5, 0).ok());
  EXPECT_TRUE(CheckEdgeFeatureWidth(4, 5, 4).ok());
  EXPECT_TRUE(CheckEdgeFeatureWidth(4, 5, 0).ok());  // what no layer reads does not matter
  EXPECT_TRUE(CheckEdgeFeatureWidth(0, 0, 4).ok());  // no edge lacks anything
  const Status missing = CheckEdgeFeatureWidth(0, 5, 4), other = CheckEdgeFeatureWidth(3, 5, 4);
  EXPECT_EQ(missing.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(DetailOf(missing)->reason, "EDGE_ATTR_MISSING");
  EXPECT_THAT(std::string(missing.message()), ::testing::HasSubstr("send it with edge_attr [E, 4]"));
  EXPECT_EQ(other.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(DetailOf(other)->reason, "EDGE_ATTR_WIDTH");
  EXPECT_THAT(std::string(other.message()), ::testing::HasSubstr("reads 4 features of each edge, but the graph's"));
}

TEST(OrderEdgeFeatures, SixteenBitsAreWidenedExactly) {
  const std::vector<uint16_t> halves = {0x3C00, 0xC100, 0x3555, 0x0001};  // 1, -2.5, 0.333251953125, 2^-24
  const std::vector<uint16_t> brain = {0x3F80, 0xC020, 0x3EAB, 0x0001};   // 1, -2.5, 0.333984375, 2^-133
  const HostTensor half{DataType::kFloat16, {2, 2}, testing::Bytes<uint16_t>(halves)};
  const HostTensor bfloat{DataType::kBFloat16, {2, 2}, testing::Bytes<uint16_t>(brain)};
  EXPECT_EQ(*CheckEdgeFeatures(half.view(), 2), 2);
  EXPECT_EQ(OrderEdgeFeatures(half.view(), {1, 0}), (std::vector<float>{0.333251953125f, 0x1p-24f, 1.0f, -2.5f}));
  EXPECT_EQ(OrderEdgeFeatures(bfloat.view(), {1, 0}), (std::vector<float>{0.333984375f, 0x1p-133f, 1.0f, -2.5f}));
  const HostTensor infinite{DataType::kFloat16, {1, 1}, testing::Bytes<uint16_t>({0x7C00})};
  ExpectRefused(CheckEdgeFeatures(infinite.view(), 1), "edge_attr", "edge_attr[0, 0] is inf");
}

TEST(OrderEdgeFeatures, FollowsTheEntries) {
  // A tensor in a request need not be aligned.
  const std::string bytes = "x" + testing::Bytes<float>({1, 2, 3, 4, 5, 6});
  const TensorView view = {DataType::kFloat32, {3, 2}, std::string_view(bytes).substr(1)};
  EXPECT_EQ(OrderEdgeFeatures(view, {2, 0, 1}), (std::vector<float>{5, 6, 1, 2, 3, 4}));
}

// More rows than a task takes. The first fault is named, whichever thread finds which.
TEST(EdgeFeatures, AreTheSameForAnyNumberOfThreads) {
  const int64_t edges = 300'000, width = 3;
  std::vector<float> values(edges * width);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1'000'003);
  std::vector<EdgeId> sent(edges);
  for (int64_t e = 0; e < edges; ++e) sent[e] = (e * 7919 + 5) % edges;
  const HostTensor tensor = FloatTensor({edges, width}, values);
  const std::vector<float> expected = OrderEdgeFeatures(tensor.view(), sent);
  values[width * 250'001 + 2] = values[width * 250'001 + 1] = values[width * 299'999] =
      std::numeric_limits<float>::infinity();
  const HostTensor faulty = FloatTensor({edges, width}, values);
  for (const int threads : {1, 2, 7}) {
    ThreadPool pool(threads);
    EXPECT_EQ(OrderEdgeFeatures(tensor.view(), sent, &pool), expected);
    EXPECT_EQ(*CheckEdgeFeatures(tensor.view(), edges, &pool), width);
    ExpectRefused(CheckEdgeFeatures(faulty.view(), edges, &pool), "edge_attr", "edge_attr[250001, 1] is inf");
  }
}

TEST(MeanEdgeFeatures, AreThoseOfEdgesFromOtherNodes) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const EdgeList edges = testing::RandomEdges(seed, false);
    std::vector<EdgeId> sent;
    const Csr csr = BuildCsrByTarget(edges, &sent);
    std::vector<float> features, ordered;
    for (int64_t e = 0; e < 2 * edges.num_edges(); ++e) features.push_back(static_cast<float>(e * e % 17) - 5.0f);
    for (const EdgeId e : sent) ordered.insert(ordered.end(), features.begin() + 2 * e, features.begin() + 2 * e + 2);
    const std::vector<float> means = MeanEdgeFeatures(csr, ordered, 2);
    ASSERT_EQ(means.size(), 2 * edges.num_nodes);
    for (int64_t node = 0; node < edges.num_nodes; ++node) {
      double sums[2] = {0, 0}, count = 0;
      for (int64_t e = 0; e < edges.num_edges(); ++e) {
        if (edges.target[e] != node || edges.source[e] == node) continue;
        sums[0] += features[2 * e], sums[1] += features[2 * e + 1], count += 1;
      }
      for (int a = 0; a < 2; ++a)
        EXPECT_EQ(means[2 * node + a], count == 0 ? 0.0f : static_cast<float>(sums[a] / count));
    }
  }
}

}  // namespace
}  // namespace vicinal
