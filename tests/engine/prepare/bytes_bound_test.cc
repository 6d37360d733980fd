// SPDX-License-Identifier: Apache-2.0
// The bound of admission holds against what is kept, follows the tensors' bytes, and survives sizes that a client made
// up.
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <string>

#include "engine/base/sanitized.h"
#include "engine/prepare/prepare.h"
#include "tests/engine/graph/graph_testing.h"
#include "tests/support/generators.h"

namespace vicinal {
namespace {

using testing::EdgeTensor;
using testing::FloatTensor;

GraphSource SourceOf(const EdgeList& edges, int64_t features, int64_t edge_features = 0) {
  GraphSource source;
  source.node_count = edges.num_nodes;
  source.edge_index = EdgeTensor(edges);
  if (features > 0)
    source.x = FloatTensor({edges.num_nodes, features}, std::vector<float>(edges.num_nodes * features, 1.0f));
  if (edge_features > 0) {
    const int64_t count = edges.num_edges() * edge_features;
    source.edge_attr = FloatTensor({edges.num_edges(), edge_features}, std::vector<float>(count, 1.0f));
  }
  return source;
}

TEST(PreparationBytesBound, CoversWhatIsKept) {
  const std::unique_ptr<Device> device = MakeCpuDevice(1);
  const PrepareContext context = {device.get(), &Clock::Real(), &StatsSink::Null(), {}};
  for (const EdgeList& edges :
       {UniformGraph(1000, 5000, 1), UniformGraph(1000, 0, 1), UniformGraph(1, 100, 1), GridGraph(30)}) {
    for (const int64_t features : {0, 3, 200}) {
      GraphSource source = SourceOf(edges, features, features / 2);
      const int64_t bound = PreparationBytesBound(SizesOf(source), DeviceKind::kCpu);
      EXPECT_GE(bound, static_cast<int64_t>(source.edge_index.bytes.size()));
      const auto upload = PrepareGraph(std::move(source), 1, context);
      ASSERT_TRUE(upload.ok());
      ASSERT_TRUE(upload->graph->Adjacency({SelfLoops::kAddRemaining, 1.0f, EdgeWeighting::kGcnOnes}).ok());
      const int64_t kept = upload->graph->size_bytes() + (upload->features ? upload->features->size_bytes() : 0);
      EXPECT_GE(bound, kept);
    }
  }
}

TEST(PreparationBytesBound, IsNotWasteful) {
  // Within 10 times the bytes sent, for a graph whose features do not dominate.
  const GraphSource source = SourceOf(UniformGraph(10000, 200000, 1), 0);
  EXPECT_LE(PreparationBytesBound(SizesOf(source), DeviceKind::kCpu),
            10 * static_cast<int64_t>(source.edge_index.bytes.size()));
}

// Of this process now, or the most since ForgetPeak; 0 where the system does not tell.
int64_t ResidentBytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(field + ":", 0) == 0) return std::stoll(line.substr(field.size() + 1)) * 1024;
  }
  return 0;
}
bool ForgetPeak() { return static_cast<bool>(std::ofstream("/proc/self/clear_refs") << 5 << std::flush); }

// What METIS takes it takes without asking our allocator, so the machine is asked.
TEST(PreparationBytesBound, CoversThePeakOfOrdersThatTakeMuch) {
#if VICINAL_SANITIZED
  GTEST_SKIP() << "a sanitizer's own memory is not bounded";
#endif
  const std::unique_ptr<Device> device = MakeCpuDevice(1);
  const PrepareContext context = {device.get(), &Clock::Real(), &StatsSink::Null(), {}};
  for (const OrderKind order : {OrderKind::kCommunity, OrderKind::kMetis}) {
    for (const EdgeList& edges : {UniformGraph(100'000, 1'000'000, 1), RmatGraph(15, 800'000, 1)}) {
      GraphSource source = SourceOf(edges, 0);
      source.order = order;
      const int64_t bound = PreparationBytesBound(SizesOf(source), DeviceKind::kCpu);
      if (!ForgetPeak()) GTEST_SKIP() << "this system cannot forget a peak";
      const int64_t before = ResidentBytes("VmRSS") - static_cast<int64_t>(source.edge_index.bytes.size());
      const auto upload = PrepareGraph(std::move(source), 1, context);
      if (!upload.ok()) continue;  // built without METIS
      EXPECT_LE(ResidentBytes("VmHWM") - before, bound) << static_cast<int>(order) << ", " << edges.num_nodes;
    }
  }
}

// Features of 64 MB: as received, and as they stay. With a copy for the check and one in execution order it was twice
// that.
TEST(PreparationBytesBound, CoversThePeakOfFeatures) {
#if VICINAL_SANITIZED
  GTEST_SKIP() << "a sanitizer's own memory is not bounded";
#endif
  const std::unique_ptr<Device> device = MakeCpuDevice(1);
  const PrepareContext context = {device.get(), &Clock::Real(), &StatsSink::Null(), {}};
  for (const OrderKind order : {OrderKind::kNone, OrderKind::kDegree}) {
    GraphSource source = SourceOf(UniformGraph(32'000, 64'000, 1), 500);
    source.order = order;
    const int64_t tensor = static_cast<int64_t>(source.x->bytes.size());
    const HostTensor again = *source.x;
    const int64_t bound = PreparationBytesBound(SizesOf(source), DeviceKind::kCpu);
    EXPECT_LT(bound, 2 * tensor + (16 << 20));
    if (!ForgetPeak()) GTEST_SKIP() << "this system cannot forget a peak";
    int64_t before = ResidentBytes("VmRSS") - tensor;
    const auto upload = PrepareGraph(std::move(source), 1, context);
    ASSERT_TRUE(upload.ok()) << upload.status();
    EXPECT_LE(ResidentBytes("VmHWM") - before, bound + (8 << 20)) << static_cast<int>(order);

    FeatureTensors tensors;
    tensors.dense = again.view();
    ForgetPeak();
    before = ResidentBytes("VmRSS");
    ASSERT_TRUE(PrepareFeatures(tensors, *upload->graph, *device).ok());
    EXPECT_LE(ResidentBytes("VmHWM") - before, tensor + (8 << 20)) << static_cast<int>(order);
  }
}

// Features of edges of 64 MB: as received, and in execution order.
TEST(PreparationBytesBound, CoversThePeakOfFeaturesOfEdges) {
#if VICINAL_SANITIZED
  GTEST_SKIP() << "a sanitizer's own memory is not bounded";
#endif
  const std::unique_ptr<Device> device = MakeCpuDevice(1);
  const PrepareContext context = {device.get(), &Clock::Real(), &StatsSink::Null(), {}};
  GraphSource source = SourceOf(UniformGraph(10'000, 160'000, 1), 0, 100);
  source.order = OrderKind::kDegree;
  const int64_t tensor = static_cast<int64_t>(source.edge_attr->bytes.size());
  const int64_t bound = PreparationBytesBound(SizesOf(source), DeviceKind::kCpu);
  EXPECT_LT(bound, 2 * tensor + (16 << 20));
  if (!ForgetPeak()) GTEST_SKIP() << "this system cannot forget a peak";
  const int64_t before = ResidentBytes("VmRSS") - tensor;
  const auto upload = PrepareGraph(std::move(source), 1, context);
  ASSERT_TRUE(upload.ok()) << upload.status();
  EXPECT_LE(ResidentBytes("VmHWM") - before, bound + (8 << 20));
}

// Fewer orders need less.
TEST(PreparationBytesBound, FollowsTheOrdersThatAutoConsiders) {
  const GraphSizes sizes = SizesOf(SourceOf(UniformGraph(10'000, 200'000, 1), 0));
  const auto bound = [&](AutoOrders among) { return PreparationBytesBound(sizes, DeviceKind::kCpu, among); };
  EXPECT_LT(bound(AutoOrders::kWithoutCommunities), bound(AutoOrders::kAll));
  EXPECT_LT(bound(AutoOrders::kAsSent), bound(AutoOrders::kWithoutCommunities));
  GraphSizes as_sent = sizes;
  as_sent.order = OrderKind::kNone;
  EXPECT_EQ(bound(AutoOrders::kAsSent), PreparationBytesBound(as_sent, DeviceKind::kCpu));
}

TEST(PreparationBytesBound, CoversABatchAndFeatures) {
  const std::unique_ptr<Device> device = MakeCpuDevice(1);
  const EdgeList edges = UniformGraph(1000, 5000, 1);
  const HostTensor ptr = testing::Int64Tensor({2}, {0, 1000}), ends = EdgeTensor(edges);
  const auto graph = PrepareBatch({ptr.view(), ends.view(), std::nullopt, std::nullopt}, *device);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_GE(BatchBytesBound({ptr.view(), ends.view(), std::nullopt, std::nullopt}, 1000), (*graph)->size_bytes());

  HostTensor half = {DataType::kFloat16, {1000, 8}, std::string(16'000, '\0')};
  FeatureTensors tensors;
  tensors.dense = half.view();
  const auto features = PrepareFeatures(tensors, **graph, *device);
  ASSERT_TRUE(features.ok()) << features.status();
  // Dense rows are written once on a CPU; tensors count unless somebody counts them already.
  const int64_t kept = (*features)->size_bytes();
  EXPECT_EQ(FeaturePreparationBytesBound(SizesOf(tensors), DeviceKind::kCpu, 0), 16'000 + kept);
  EXPECT_EQ(FeaturePreparationBytesBound(SizesOf(tensors), DeviceKind::kCpu, 16'000), kept);
  EXPECT_EQ(FeaturePreparationBytesBound(SizesOf(tensors), DeviceKind::kCuda, 16'000), 2 * kept);
  // Given away, they are in memory once.
  EXPECT_TRUE(CanTake(SizesOf(tensors), DeviceKind::kCpu));
  EXPECT_FALSE(CanTake(SizesOf(tensors), DeviceKind::kCuda));
  EXPECT_GE(TakenFeaturesBytesBound(SizesOf(tensors)), kept);
  FeatureSizes large;
  large.dense = TensorSize{DataType::kFloat32, 200'000'000};
  EXPECT_LE(TakenFeaturesBytesBound(large), 211'000'000);
}

TEST(PreparationBytesBound, SurvivesMadeUpSizes) {
  GraphSource source = SourceOf(UniformGraph(10, 20, 1), 0);
  for (const int64_t count : {std::numeric_limits<int64_t>::min(), int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
    source.node_count = count;
    source.edge_index.shape = {2, count};
    EXPECT_GE(PreparationBytesBound(SizesOf(source), DeviceKind::kCpu),
              static_cast<int64_t>(source.edge_index.bytes.size()));
  }
}

}  // namespace
}  // namespace vicinal
