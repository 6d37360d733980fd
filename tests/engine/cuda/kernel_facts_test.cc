// SPDX-License-Identifier: Apache-2.0
// What the CUDA kernels declare of themselves: reduction orders with stable ids, and predicted times. The registry is
// filled without a GPU.
#include "tests/engine/kernels/kernel_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/kernels/backend.h"
#include "engine/kernels/expression_form.h"
#include "engine/kernels/layout_codec.h"
#include "engine/tune/program_work.h"
#include "engine/tune/work.h"
#include "tests/engine/cuda/layout_form_testing.h"
#include "tests/engine/kernels/edge_values.h"
#include "tests/engine/tune/prior_cases.h"

namespace vicinal {
namespace {

using testing::PriorCase;
using testing::PriorGolden;

class CudaKernelFactsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto backend = Backend::Load(VICINAL_LIB_DIR "/libvicinal_cuda.so");
    ASSERT_TRUE(backend.ok()) << backend.status();
    (*backend)->table().register_kernels(registry_, nullptr);
  }
  // A kernel whose library the build lacks refuses all problems, so it is asked without being chosen.
  const AggregateKernel& Aggregate(std::string_view name) const {
    for (const auto& entry : registry_.aggregate.kernels())
      if (entry->kernel().name() == name) return entry->kernel();
    ADD_FAILURE() << "no kernel " << name;
    return registry_.aggregate.kernels().front()->kernel();
  }
  double Predict(std::string_view name, int64_t nodes, int64_t edges, KernelConfig config = {}) const {
    WorkShape shape;
    shape.rows = shape.cols = nodes;
    shape.edges = edges;
    const TuningKey key = testing::AggregateKey("sum", 64);
    return Aggregate(name).PredictSeconds(AggregateProblemOf(key, nodes, nodes, edges), config, shape).value_or(-1.0);
  }

  KernelRegistry registry_;
};

// On the CPU's memory, which layouts are made in as well: what a kernel stores and reads again is what it made, and it
// reads no layout under another's name.
TEST_F(CudaKernelFactsTest, LayoutsComeBackFromTheirFlatForm) {
  const cuda::HostCsr graph = cuda::CommunityGraph(9'000, 5'000);
  const CsrView adjacency = graph.view();
  const AggregateProblem problem =
      AggregateProblemOf(testing::AggregateKey("sum", 64), adjacency.rows, adjacency.cols, adjacency.nnz);
  const auto device = MakeCpuDevice(1);
  std::set<std::string> made, without;
  for (const auto& entry : registry_.aggregate.kernels()) {
    const AggregateKernel& kernel = entry->kernel();
    const LayoutCodec* const codec = LayoutCodecOf(kernel);
    for (const KernelConfig& config : kernel.Candidates(problem)) {
      const std::string name = kernel.LayoutName(problem, config);
      if (name.empty()) continue;
      SCOPED_TRACE(std::string(kernel.name()) + ", " + name);
      if (codec == nullptr) {
        without.emplace(kernel.name());
        continue;
      }
      LayoutSource source(adjacency, {}, *device);
      const auto layout = kernel.MakeLayout(problem, config, source);
      if (!layout.ok()) continue;  // it does not pay here
      made.emplace(kernel.name());
      const cuda::MemoryInput form(codec->Flatten(**layout));
      const auto again = codec->Unflatten(name, form, source);
      ASSERT_TRUE(again.ok()) << again.status();
      const cuda::MemoryInput second(codec->Flatten(**again));
      EXPECT_TRUE(second.arrays == form.arrays && second.numbers == form.numbers);
      EXPECT_EQ((*again)->size_bytes(), (*layout)->size_bytes());
      EXPECT_EQ(codec->Unflatten("x" + name, form, source).status().code(), StatusCode::kDataLoss);
      EXPECT_EQ(codec->Unflatten("", form, source).status().code(), StatusCode::kDataLoss);
    }
  }
  EXPECT_THAT(made, ::testing::UnorderedElementsAre("binned_rows", "dense_tiles", "length_sorted_rows",
                                                    "partition_dual", "source_panels", "template_spmm"));
  EXPECT_THAT(without, ::testing::IsSubsetOf({"cusparse", "neighbor_group", "neighbor_group_atomics"}));
}

// As for the CPU's (tests/engine/kernels/kernel_facts_test.cc).
TEST_F(CudaKernelFactsTest, IdsAreStable) {
  EXPECT_THAT(testing::DeclaredOrders(registry_, DeviceKind::kCuda),
              ::testing::IsSupersetOf({"aggregate atomic_additions 1 own 8379944747898982",
                                       "aggregate cusparse 1 own 5778458784611013",
                                       "aggregate dense_blocks 1 own 6348271107251810",
                                       "aggregate edge_groups 1 own 8319651795123126",
                                       "aggregate equal_parts 1 own 6601957167105084",
                                       "aggregate row_parts 1 standard 6408518460921090",
                                       "aggregate staged_edges 1 own 7482993502214023",
                                       "aggregate staged_panels 1 own 7895630412829939",
                                       "aggregate tile_products 1 own 7766358492057605",
                                       "aggregate whole_rows 1 own 6915678199007113",
                                       "attention fused_softmax 1 standard 8317685200746706",
                                       "attention two_pass_softmax 1 own 5539682713755937",
                                       "dense_update ascending_inputs 1 standard 8018651461846506",
                                       "dense_update cublas_products 1 own 8757058231887332",
                                       "dense_update tensor_products 1 own 7272950572009495",
                                       "edge_scores tree_products 1 standard 4667087552300692",
                                       "expression expression_rows 2 standard 7483307443261170",
                                       "message_reduce message_rows 1 standard 6852157438831085",
                                       "rowwise row_elements 1 standard 4662868296873272",
                                       "sparse_aggregate_update dense_rows 1 standard 5422315988595563",
                                       "sparse_update row_parts 1 standard 5678279361545160"}));
}

const PriorGolden kGoldens[] = {
    {0, "binned_rows", {{0, 0, 0, 0, 0}}, 0x1.be179568c68a8p-18},
    {0, "binned_rows", {{32, 0, 0, 0, 0}}, 0x1.be179568c68a8p-18},
    {0, "binned_rows", {{32, 1, 0, 0, 0}}, 0x1.be179568c68a8p-18},
    {0, "dense_tiles", {{0, 0, 0, 0, 0}}, 0x1.ef0b942f399f5p-18},
    {0, "dense_tiles", {{64, 0, 0, 0, 0}}, 0x1.ef0b942f399f5p-18},
    {0, "length_sorted_rows", {{0, 0, 0, 0, 0}}, 0x1.1c3cc92c731f4p-17},
    {0, "length_sorted_rows", {{0, 256, 0, 1, 0}}, 0x1.1c3cc92c731f4p-17},
    {0, "source_panels", {{0, 0, 0, 0, 0}}, 0x1.ef0b942f399f5p-18},
    {0, "source_panels", {{0, 32, 0, 0, 0}}, 0x1.ef0b942f399f5p-18},
    {0, "row_cache", {{0, 0, 0, 0, 0}}, 0x1.a59d96058d002p-18},
    {0, "row_cache", {{2, 0, 0, 0, 0}}, 0x1.a59d96058d002p-18},
    {0, "neighbor_group", {{0, 0, 0, 0, 0}}, 0x1.be179568c68a8p-18},
    {0, "neighbor_group", {{16, 16, 128, 0, 0}}, 0x1.c566bd500032cp-18},
    {0, "neighbor_group", {{32, 16, 128, 0, 0}}, 0x1.be179568c68a8p-18},
    {0, "neighbor_group", {{32, 8, 128, 0, 0}}, 0x1.8d2396a25375cp-18},
    {0, "neighbor_group", {{32, 16, 256, 0, 0}}, 0x1.8d2396a25375cp-18},
    {0, "neighbor_group", {{128, 4, 128, 0, 0}}, 0x1.8d2396a25375cp-18},
    {0, "neighbor_group", {{4, 32, 32, 0, 0}}, 0x1.fb4893e0d6648p-18},
    {0, "neighbor_group", {{1024, 1, 512, 0, 0}}, 0x1.8d2396a25375cp-18},
    {0, "partition_dual", {{0, 0, 0, 0, 0}}, 0x1.80e696f0b6b09p-18},
    {0, "partition_dual", {{160, 0, 0, 0, 0}}, 0x1.80e696f0b6b09p-18},
    {0, "template_spmm", {{0, 0, 0, 0, 0}}, 0x1.1c3cc92c731f4p-17},
    {0, "template_spmm", {{64, 0, 0, 0, 0}}, 0x1.1c3cc92c731f4p-17},
    {0, "cusparse", {{0, 0, 0, 0, 0}}, 0x1.40f3c841496eep-17},
    {0, "cusparse", {{2, 0, 0, 0, 0}}, 0x1.40f3c841496eep-17},
    {0, "neighbor_group_atomics", {{0, 0, 0, 0, 0}}, 0x1.be179568c68a8p-18},
    {0, "neighbor_group_atomics", {{16, 16, 128, 0, 0}}, 0x1.be179568c68a8p-18},
    {1, "binned_rows", {{0, 0, 0, 0, 0}}, 0x1.108f965b59239p-12},
    {1, "binned_rows", {{32, 0, 0, 0, 0}}, 0x1.108f965b59239p-12},
    {1, "binned_rows", {{32, 1, 0, 0, 0}}, 0x1.108f965b59239p-12},
    {1, "dense_tiles", {{0, 0, 0, 0, 0}}, 0x1.4671a4bdfdbe9p-12},
    {1, "dense_tiles", {{64, 0, 0, 0, 0}}, 0x1.4671a4bdfdbe9p-12},
    {1, "length_sorted_rows", {{0, 0, 0, 0, 0}}, 0x1.9744ba51f4a71p-12},
    {1, "length_sorted_rows", {{0, 256, 0, 1, 0}}, 0x1.9744ba51f4a71p-12},
    {1, "source_panels", {{0, 0, 0, 0, 0}}, 0x1.4671a4bdfdbe9p-12},
    {1, "source_panels", {{0, 32, 0, 0, 0}}, 0x1.4671a4bdfdbe9p-12},
    {1, "row_cache", {{0, 0, 0, 0, 0}}, 0x1.b235c18346f49p-12},
    {1, "row_cache", {{2, 0, 0, 0, 0}}, 0x1.b235c18346f49p-12},
    {1, "neighbor_group", {{0, 0, 0, 0, 0}}, 0x1.108f965b59239p-12},
    {1, "neighbor_group", {{16, 16, 128, 0, 0}}, 0x1.18a144538597fp-12},
    {1, "neighbor_group", {{32, 16, 128, 0, 0}}, 0x1.108f965b59239p-12},
    {1, "neighbor_group", {{32, 8, 128, 0, 0}}, 0x1.b55b0ff169111p-13},
    {1, "neighbor_group", {{32, 16, 256, 0, 0}}, 0x1.b55b0ff169111p-13},
    {1, "neighbor_group", {{128, 4, 128, 0, 0}}, 0x1.b55b0ff169111p-13},
    {1, "neighbor_group", {{4, 32, 32, 0, 0}}, 0x1.53ea2856a6e55p-12},
    {1, "neighbor_group", {{1024, 1, 512, 0, 0}}, 0x1.b55b0ff169111p-13},
    {1, "partition_dual", {{0, 0, 0, 0, 0}}, 0x1.9a6a08c016c39p-13},
    {1, "partition_dual", {{160, 0, 0, 0, 0}}, 0x1.9a6a08c016c39p-13},
    {1, "template_spmm", {{0, 0, 0, 0, 0}}, 0x1.9744ba51f4a71p-12},
    {1, "template_spmm", {{64, 0, 0, 0, 0}}, 0x1.9744ba51f4a71p-12},
    {1, "cusparse", {{0, 0, 0, 0, 0}}, 0x1.e817cfe5eb8f9p-12},
    {1, "cusparse", {{2, 0, 0, 0, 0}}, 0x1.e817cfe5eb8f9p-12},
    {1, "neighbor_group_atomics", {{0, 0, 0, 0, 0}}, 0x1.108f965b59239p-12},
    {1, "neighbor_group_atomics", {{16, 16, 128, 0, 0}}, 0x1.108f965b59239p-12},
    {2, "binned_rows", {{0, 0, 0, 0, 0}}, 0x1.ee90c03a697c6p-11},
    {2, "binned_rows", {{32, 0, 0, 0, 0}}, 0x1.ee90c03a697c6p-11},
    {2, "binned_rows", {{32, 1, 0, 0, 0}}, 0x1.ee90c03a697c6p-11},
    {2, "dense_tiles", {{0, 0, 0, 0, 0}}, 0x1.bd4424207a3e3p-11},
    {2, "dense_tiles", {{64, 0, 0, 0, 0}}, 0x1.bd4424207a3e3p-11},
    {2, "length_sorted_rows", {{0, 0, 0, 0, 0}}, 0x1.5aaaebec9bc1bp-11},
    {2, "length_sorted_rows", {{0, 256, 0, 1, 0}}, 0x1.5aaaebec9bc1bp-11},
    {2, "source_panels", {{0, 0, 0, 0, 0}}, 0x1.bd4424207a3e3p-11},
    {2, "source_panels", {{0, 32, 0, 0, 0}}, 0x1.bd4424207a3e3p-11},
    {2, "row_cache", {{0, 0, 0, 0, 0}}, 0x1.8b2e346b0278ep-10},
    {2, "row_cache", {{2, 0, 0, 0, 0}}, 0x1.8b2e346b0278ep-10},
    {2, "neighbor_group", {{0, 0, 0, 0, 0}}, 0x1.ee90c03a697c6p-11},
    {2, "neighbor_group", {{16, 16, 128, 0, 0}}, 0x1.fd760d2d9283dp-11},
    {2, "neighbor_group", {{32, 16, 128, 0, 0}}, 0x1.ee90c03a697c6p-11},
    {2, "neighbor_group", {{32, 8, 128, 0, 0}}, 0x1.bb90f29b2b5f5p-11},
    {2, "neighbor_group", {{32, 16, 256, 0, 0}}, 0x1.8bf788068bp-11},
    {2, "neighbor_group", {{128, 4, 128, 0, 0}}, 0x1.9c4e2ad0d0e55p-11},
    {2, "neighbor_group", {{4, 32, 32, 0, 0}}, 0x1.34e8233d9fcbfp-10},
    {2, "neighbor_group", {{1024, 1, 512, 0, 0}}, 0x1.8bf788068bp-11},
    {2, "partition_dual", {{0, 0, 0, 0, 0}}, 0x1.735139f99360ep-11},
    {2, "partition_dual", {{160, 0, 0, 0, 0}}, 0x1.735139f99360ep-11},
    {2, "template_spmm", {{0, 0, 0, 0, 0}}, 0x1.7287e65e0ad9cp-10},
    {2, "template_spmm", {{64, 0, 0, 0, 0}}, 0x1.7287e65e0ad9cp-10},
    {2, "cusparse", {{0, 0, 0, 0, 0}}, 0x1.bc7ad084f1b71p-10},
    {2, "cusparse", {{2, 0, 0, 0, 0}}, 0x1.bc7ad084f1b71p-10},
    {2, "neighbor_group_atomics", {{0, 0, 0, 0, 0}}, 0x1.ee90c03a697c6p-11},
    {2, "neighbor_group_atomics", {{16, 16, 128, 0, 0}}, 0x1.ee90c03a697c6p-11},
    {3, "binned_rows", {{0, 0, 0, 0, 0}}, 0x1.aa62efbdf6681p-15},
    {3, "binned_rows", {{32, 0, 0, 0, 0}}, 0x1.aa62efbdf6681p-15},
    {3, "binned_rows", {{32, 1, 0, 0, 0}}, 0x1.aa62efbdf6681p-15},
    {3, "dense_tiles", {{0, 0, 0, 0, 0}}, 0x1.8243b01cac415p-15},
    {3, "dense_tiles", {{64, 0, 0, 0, 0}}, 0x1.8243b01cac415p-15},
    {3, "length_sorted_rows", {{0, 0, 0, 0, 0}}, 0x1.320530da17f3bp-15},
    {3, "length_sorted_rows", {{0, 256, 0, 1, 0}}, 0x1.320530da17f3bp-15},
    {3, "source_panels", {{0, 0, 0, 0, 0}}, 0x1.8243b01cac415p-15},
    {3, "source_panels", {{0, 32, 0, 0, 0}}, 0x1.8243b01cac415p-15},
    {3, "row_cache", {{0, 0, 0, 0, 0}}, 0x1.4d8f36c2d9a87p-14},
    {3, "row_cache", {{2, 0, 0, 0, 0}}, 0x1.4d8f36c2d9a87p-14},
    {3, "neighbor_group", {{0, 0, 0, 0, 0}}, 0x1.aa62efbdf6681p-15},
    {3, "neighbor_group", {{16, 16, 128, 0, 0}}, 0x1.b6826174b46bep-15},
    {3, "neighbor_group", {{32, 16, 128, 0, 0}}, 0x1.aa62efbdf6681p-15},
    {3, "neighbor_group", {{32, 8, 128, 0, 0}}, 0x1.0758876897e48p-14},
    {3, "neighbor_group", {{32, 16, 256, 0, 0}}, 0x1.5a24707b621a9p-15},
    {3, "neighbor_group", {{128, 4, 128, 0, 0}}, 0x1.0758876897e48p-14},
    {3, "neighbor_group", {{4, 32, 32, 0, 0}}, 0x1.0758876897e48p-14},
    {3, "neighbor_group", {{1024, 1, 512, 0, 0}}, 0x1.5a24707b621a9p-15},
    {3, "partition_dual", {{0, 0, 0, 0, 0}}, 0x1.4614d0aabd072p-15},
    {3, "partition_dual", {{160, 0, 0, 0, 0}}, 0x1.4614d0aabd072p-15},
    {3, "template_spmm", {{0, 0, 0, 0, 0}}, 0x1.397f96f23495p-14},
    {3, "template_spmm", {{64, 0, 0, 0, 0}}, 0x1.397f96f23495p-14},
    {3, "cusparse", {{0, 0, 0, 0, 0}}, 0x1.75ae766423cf3p-14},
    {3, "cusparse", {{2, 0, 0, 0, 0}}, 0x1.75ae766423cf3p-14},
    {3, "neighbor_group_atomics", {{0, 0, 0, 0, 0}}, 0x1.aa62efbdf6681p-15},
    {3, "neighbor_group_atomics", {{16, 16, 128, 0, 0}}, 0x1.aa62efbdf6681p-15},
    {4, "binned_rows", {{0, 0, 0, 0, 0}}, 0x1.3b4d1648707c2p-12},
    {4, "binned_rows", {{32, 0, 0, 0, 0}}, 0x1.3b4d1648707c2p-12},
    {4, "binned_rows", {{32, 1, 0, 0, 0}}, 0x1.3b4d1648707c2p-12},
    {4, "dense_tiles", {{0, 0, 0, 0, 0}}, 0x1.1c15e8b29bd9p-12},
    {4, "dense_tiles", {{64, 0, 0, 0, 0}}, 0x1.1c15e8b29bd9p-12},
    {4, "length_sorted_rows", {{0, 0, 0, 0, 0}}, 0x1.bb4f1b0de5254p-13},
    {4, "length_sorted_rows", {{0, 256, 0, 1, 0}}, 0x1.bb4f1b0de5254p-13},
    {4, "source_panels", {{0, 0, 0, 0, 0}}, 0x1.1c15e8b29bd9p-12},
    {4, "source_panels", {{0, 32, 0, 0, 0}}, 0x1.1c15e8b29bd9p-12},
    {4, "row_cache", {{0, 0, 0, 0, 0}}, 0x1.f69827cb6c4f1p-12},
    {4, "row_cache", {{2, 0, 0, 0, 0}}, 0x1.f69827cb6c4f1p-12},
    {4, "neighbor_group", {{0, 0, 0, 0, 0}}, 0x1.3b4d1648707c2p-12},
    {4, "neighbor_group", {{16, 16, 128, 0, 0}}, 0x1.44b10a6dde8fdp-12},
    {4, "neighbor_group", {{32, 16, 128, 0, 0}}, 0x1.3b4d1648707c2p-12},
    {4, "neighbor_group", {{32, 8, 128, 0, 0}}, 0x1.f9bd76398e6b9p-13},
    {4, "neighbor_group", {{32, 16, 256, 0, 0}}, 0x1.f9bd76398e6b9p-13},
    {4, "neighbor_group", {{128, 4, 128, 0, 0}}, 0x1.f9bd76398e6b9p-13},
    {4, "neighbor_group", {{4, 32, 32, 0, 0}}, 0x1.8957083f0414p-12},
    {4, "neighbor_group", {{1024, 1, 512, 0, 0}}, 0x1.f9bd76398e6b9p-13},
    {4, "partition_dual", {{0, 0, 0, 0, 0}}, 0x1.da8648a3b9c87p-13},
    {4, "partition_dual", {{160, 0, 0, 0, 0}}, 0x1.da8648a3b9c87p-13},
    {4, "template_spmm", {{0, 0, 0, 0, 0}}, 0x1.d760fa3597abfp-12},
    {4, "template_spmm", {{64, 0, 0, 0, 0}}, 0x1.d760fa3597abfp-12},
    {4, "cusparse", {{0, 0, 0, 0, 0}}, 0x1.1a83417b8acabp-11},
    {4, "cusparse", {{2, 0, 0, 0, 0}}, 0x1.1a83417b8acabp-11},
    {4, "neighbor_group_atomics", {{0, 0, 0, 0, 0}}, 0x1.3b4d1648707c2p-12},
    {4, "neighbor_group_atomics", {{16, 16, 128, 0, 0}}, 0x1.3b4d1648707c2p-12},
    {5, "fused_rows", {{0, 0, 0, 0, 0}}, 0x1.6c471831a31a2p-16},
    {5, "plain_rows", {{0, 0, 0, 0, 0}}, 0x1.6c471831a31a2p-16},
};

TEST_F(CudaKernelFactsTest, PredictionsAreWhatTheyAlwaysWere) {
  const std::vector<PriorCase> cases = testing::GpuPriorCases();
  for (const PriorGolden& golden : kGoldens) {
    const PriorCase& c = cases[golden.index];
    const WorkShape shape = testing::ShapeOf(c);
    WithProblem(registry_, c.key, c.rows, c.cols, c.edges, [&](const auto& operation, const auto& problem) {
      bool found = false;
      for (const auto& entry : operation.kernels()) {
        if (entry->kernel().name() != golden.kernel) continue;
        found = true;
        const std::optional<double> seconds = entry->kernel().PredictSeconds(problem, golden.config, shape);
        // cusparse where the build has no cuSPARSE.
        if (!seconds.has_value() && !entry->kernel().WhyUnsupported(problem).empty()) continue;
        ASSERT_TRUE(seconds.has_value()) << golden.kernel;
        EXPECT_DOUBLE_EQ(*seconds, golden.seconds) << golden.kernel << ", case " << golden.index;
      }
      EXPECT_TRUE(found) << golden.kernel;
    });
  }
}

// GNNAdvisor's Eq. 2 orders neighbor_group's settings; none of them falls behind so far that it would not be run.
TEST_F(CudaKernelFactsTest, OrdersNeighborGroupsByThePublishedModel) {
  const auto group = [&](int32_t gs, int32_t dw, int32_t tpb) {
    return Predict("neighbor_group", 400'000, 5'000'000, {{gs, dw, tpb}});
  };
  EXPECT_LT(group(32, 16, 256), group(32, 16, 128)) << "farther from the root of the most threads";
  EXPECT_LT(group(32, 8, 128), group(32, 16, 128)) << "farther from a third of the width";
  EXPECT_EQ(group(0, 0, 0), Predict("binned_rows", 400'000, 5'000'000));
  for (const int32_t gs : {4, 1024}) EXPECT_LT(group(gs, 32, 32) / group(gs, 1, 1024), 3.0);
}

// The strategy `estimated` searches the paper's ranges, by Eq. 2 within the limits of Eq. 3 and 4.
TEST_F(CudaKernelFactsTest, SearchesNeighborGroupsByThePublishedModel) {
  const AggregateKernel& kernel = Aggregate("neighbor_group");
  const AggregateProblem problem = AggregateProblemOf(testing::AggregateKey("sum", 96), 1000, 1000, 8000);
  const auto space = kernel.SearchSpace(problem);
  ASSERT_EQ(space.size(), kernel.ParameterNames().size());
  EXPECT_THAT(space[2], ::testing::ElementsAre(32, 64, 128, 256, 512, 1024));
  WorkShape shape;
  shape.rows = shape.cols = 1000;
  shape.edges = 8000;
  shape.degree_deviation = 8.0;
  // By hand, as in tests/engine/kernels/group_model_test.cc.
  EXPECT_DOUBLE_EQ(kernel.ModelLatency(problem, {{16, 16, 128}}, shape).value_or(0.0), 530.37109375);
  EXPECT_EQ(kernel.LaneFloats(problem, {{16, 16, 128}}), 96.0);
  shape.lane_floats = 95.0;
  EXPECT_FALSE(kernel.ModelLatency(problem, {{16, 16, 128}}, shape).has_value());
  shape.lane_floats = 0.0;
  // 1,024 * 1,024 / 8 rows of 96 floats do not fit any block.
  EXPECT_FALSE(kernel.ModelLatency(problem, {{1024, 1, 1024}}, shape).has_value());
  EXPECT_TRUE(Aggregate("binned_rows").SearchSpace(problem).empty());
}

TEST_F(CudaKernelFactsTest, TuningKeepsToTheRangesOfParameters) {
  EXPECT_THAT(testing::ValuesOutOfRange(registry_, DeviceKind::kCuda), ::testing::IsEmpty());
}

// What tuning may choose, and what the published ranges ask for.
TEST_F(CudaKernelFactsTest, OffersThePublishedParameters) {
  const auto offers = [&](const char* kernel, int64_t width, const KernelConfig& wanted) {
    const std::vector<KernelConfig> candidates = Aggregate(kernel).Candidates(
        AggregateProblemOf(testing::AggregateKey("sum", width), 400'000, 400'000, 5'000'000));
    return std::find(candidates.begin(), candidates.end(), wanted) != candidates.end();
  };
  EXPECT_TRUE(offers("row_cache", 512, {{4}}));
  EXPECT_FALSE(offers("row_cache", 16, {{2}})) << "nothing to merge";
  for (const int threads : {64, 256, 512, 1024}) {
    EXPECT_TRUE(offers("neighbor_group", 64, {{32, 16, threads}})) << threads;
    EXPECT_TRUE(offers("neighbor_group_atomics", 64, {{32, 16, threads}})) << threads;
  }
}

// Layouts of other blocks are other layouts: their names tell forced settings apart up to 1,024 threads.
TEST_F(CudaKernelFactsTest, GroupsOfLargeBlocksHaveLayoutsOfTheirOwn) {
  const AggregateProblem problem = AggregateProblemOf(testing::AggregateKey("sum", 64), 1000, 1000, 9000);
  const AggregateKernel& kernel = Aggregate("neighbor_group_atomics");
  EXPECT_EQ(kernel.LayoutName(problem, {{32, 4, 1024}}), "groups of 32, 256 a block");
  EXPECT_EQ(kernel.LayoutName(problem, {{32, 4, 5000}}), "groups of 32, 256 a block") << "no more than that";
  EXPECT_EQ(kernel.LayoutName(problem, {{32, 4, 512}}), "groups of 32, 128 a block");
}

// Every parameter changes the layout; orders differ where additions do, and that of the default is what it always was.
TEST_F(CudaKernelFactsTest, PartitionDualTellsItsSettingsApart) {
  AggregateProblem problem = AggregateProblemOf(testing::AggregateKey("sum", 64), 1000, 1000, 9000);
  const AggregateKernel& kernel = Aggregate("partition_dual");
  const std::vector<std::pair<KernelConfig, std::string>> names = {
      {{}, "theta 80/1000, groups of 32, 8 a block"},
      {{{40}}, "theta 40/1000, groups of 32, 8 a block"},
      {{{40, 32}}, "theta 40/1000, 32 parts, groups of 32, 8 a block"},
      {{{40, 0, 1}}, "theta 40/1000, rows"},
      {{{5000, 5000, 7}}, "theta 1001/1000, 1024 parts, rows"}};
  std::set<int64_t> orders;
  for (const auto& [config, name] : names) {
    EXPECT_EQ(kernel.LayoutName(problem, config), name);
    orders.insert(kernel.ReductionOrder(problem, config));
  }
  EXPECT_EQ(orders.size(), names.size());
  EXPECT_EQ(kernel.OrderParameters(problem, {}), (std::vector<int64_t>{80, 32, 8, 0}));
  EXPECT_THAT(kernel.Candidates(problem), ::testing::ElementsAre(KernelConfig())) << "there is no device to measure on";
  problem.weighted = true;
  EXPECT_EQ(kernel.WhyUnsupported(problem), "");
}

// Each size of tile is compiled to be measured: the usual one, the same with more edges per block, and the others; and
// one with parts of the columns where wide sources exceed the cache.
TEST_F(CudaKernelFactsTest, MessageFunctionsHaveFewCandidatesAndOneOrder) {
  EdgeProgram program;
  program.sources = program.targets = 1;
  program.values = {testing::ValueOf(EdgeOp::kSource, 24, -1, -1, 0), testing::ValueOf(EdgeOp::kTarget, 24, -1, -1, 0),
                    testing::ValueOf(EdgeOp::kMultiply, 24, 0, 1)};
  program.results = {{EdgeReduce::kMean, 2, -1}};
  const ExpressionProblem problem = ExpressionProblemOf(program, 1000, 1000, 9000);
  ASSERT_EQ(registry_.expression.kernels().size(), 1u);
  const ExpressionKernel& kernel = registry_.expression.kernels().front()->kernel();
  EXPECT_THAT(kernel.Candidates(problem),
              ::testing::ElementsAre(KernelConfig(), KernelConfig{{0, 512}}, KernelConfig{{32}}, KernelConfig{{16}}));
  for (const KernelConfig& config : kernel.Candidates(problem)) EXPECT_EQ(kernel.ReductionOrder(problem, config), 0);
  EXPECT_EQ(CompileExpression(kernel, problem, KernelConfig()), nullptr) << "there is no device to compile for";
  program.values[0].width = program.values[1].width = program.values[2].width = 20'000;
  const ExpressionProblem wide = ExpressionProblemOf(program, 1000, 1000, 9000);
  EXPECT_THAT(kernel.Candidates(wide),
              ::testing::ElementsAre(KernelConfig(), KernelConfig{{0, 512}}, KernelConfig{{0, 0, 0, 8192}}))
      << "no tile fits shared memory, and the one that serves is the default";
  program.values[0].width = program.values[1].width = program.values[2].width = 64;
  const ExpressionProblem large = ExpressionProblemOf(program, 200'000, 200'000, 4'000'000);
  EXPECT_THAT(kernel.Candidates(large),
              ::testing::ElementsAre(KernelConfig(), KernelConfig{{0, 512}}, KernelConfig{{32}}, KernelConfig{{16}},
                                     KernelConfig{{0, 0, 0, 32}}))
      << "columns whose sources fit the L2 cache";
  for (const KernelConfig& config : kernel.Candidates(large)) EXPECT_EQ(kernel.ReductionOrder(large, config), 0);
}

// A message network is an expression where tiles of the size that was measured fit. Without a device nothing compiles.
TEST_F(CudaKernelFactsTest, MessageFunctionsAreFastUpToSomeWidth) {
  EdgeProgram program;
  program.sources = program.targets = 1;
  program.values = {testing::ValueOf(EdgeOp::kSource, 64, -1, -1, 0), testing::ValueOf(EdgeOp::kTarget, 64, -1, -1, 0),
                    testing::ValueOf(EdgeOp::kAdd, 64, 0, 1), testing::ValueOf(EdgeOp::kActivation, 64, 2),
                    testing::ValueOf(EdgeOp::kLinear, 64, 3, -1, 0)};
  program.results = {{EdgeReduce::kMax, 4, -1}};
  const ExpressionKernel& kernel = registry_.expression.kernels().front()->kernel();
  const auto why_not = [&](int64_t width) {
    for (EdgeValue& value : program.values) value.width = width;
    return WhyNotFast(kernel, ExpressionProblemOf(program, 1000, 1000, 9000), {});
  };
  EXPECT_EQ(why_not(64), "it interprets programs here");
  EXPECT_THAT(why_not(1024), ::testing::HasSubstr("of shared memory"));
}

// Without a device kernels are those of the newest GPU, but for what has to be verified on one.
TEST_F(CudaKernelFactsTest, CublasIsUnfitWithoutAGpu) {
  const DenseUpdateProblem problem = {200'000, 256, 256};
  int unfit = 0;
  for (const auto& entry : registry_.dense_update.kernels()) {
    const DenseUpdateKernel& kernel = entry->kernel();
    if (kernel.name() != "cublas") {
      EXPECT_EQ(kernel.WhyUnfit(), "") << kernel.name();
      continue;
    }
    ++unfit;
    EXPECT_NE(kernel.WhyUnfit(), "");
    EXPECT_EQ(kernel.WhyUnsupported(problem), kernel.WhyUnfit());
    EXPECT_TRUE(kernel.OrderParameters(problem, {}).empty());
    EXPECT_EQ(kernel.Prepare(problem), nullptr) << "there is nothing to verify on";
    // What is known without the library.
    EXPECT_EQ(kernel.WhyNotTried(problem), "");
    EXPECT_NE(kernel.WhyNotTried({20'000, 256, 256}), "");
    EXPECT_NE(kernel.WhyNotTried({200'000, 256, 256, ProductPrecision::kTf32}), "");
    EXPECT_NE(kernel.WhyNotTried({200'000, 4096, 256}), "");
    EXPECT_NE(kernel.WhyNotTried({200'000, 256, 4096}), "");
  }
  EXPECT_EQ(unfit, 1);
  EXPECT_EQ(Aggregate("dense_tiles").WhyUnfit(), "");
}

TEST_F(CudaKernelFactsTest, NoKernelIsPredictedTooFarBehindToBeTried) {
  for (const int64_t edges : {10'000, 50'000'000}) {
    const auto predicted = [&](const char* kernel) { return Predict(kernel, edges / 10, edges); };
    for (const char* kernel : {"binned_rows", "row_cache", "neighbor_group"}) {
      EXPECT_LT(predicted("partition_dual"), predicted(kernel));
      EXPECT_LT(predicted(kernel), 3.0 * predicted("partition_dual"));
    }
    EXPECT_EQ(predicted("row_cache") < predicted("binned_rows"), edges == 10'000);
  }
}

// A GPU's runs are short: none of them is cut to a sample of the rows.
TEST_F(CudaKernelFactsTest, AGpuTakesMilliseconds) {
  EXPECT_LT(Predict("binned_rows", 400'000, 5'000'000), 1e-3);
  EXPECT_GT(Predict("binned_rows", 400'000, 5'000'000), 1e-4);
}

TEST_F(CudaKernelFactsTest, AliasesLeadToRegisteredKernels) {
  for (const KernelAlias& alias : KernelAliases()) {
    bool found = false;
    registry_.ForEachOperation([&](const auto& operation) {
      for (const auto& entry : operation.kernels())
        found = found || (operation.operation() == alias.operation && entry->kernel().name() == alias.current);
    });
    EXPECT_TRUE(found) << alias.operation << " " << alias.current;
  }
}

}  // namespace
}  // namespace vicinal
