// SPDX-License-Identifier: Apache-2.0
// The reference models on Cora and on the awkward directed graph; the pooled model on a batch of a thousand small
// graphs.
#include "tests/engine/api/reference_models.h"

namespace vicinal::testing {
namespace {

class ReferenceModels : public ::testing::TestWithParam<ReferenceModel> {};
TEST_P(ReferenceModels, EveryOrderIsExactAndRepeats) { CheckEveryOrder(GetParam()); }
TEST_P(ReferenceModels, EveryKernelForcedIsExactAndRuns) { CheckEveryKernel(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Small, ReferenceModels, ::testing::ValuesIn(SmallReferenceModels()), CaseName);

TEST(ReferenceGraphModel, PooledProteinsInOneBatchAndAlone) {
  auto engine = MakeEngine();
  PutModel(*engine, "proteins-ginpool");
  const auto batch = client::ReadGraphBatch(std::string(VICINAL_TEST_DATA) + "/graphs/proteins.npz");
  ASSERT_TRUE(batch.ok()) << batch.status();
  const int64_t edges = static_cast<int64_t>(batch->sources.size());
  std::vector<int64_t> ends = batch->sources;
  ends.insert(ends.end(), batch->targets.begin(), batch->targets.end());
  const HostTensor ptr = Ints(batch->ptr, {static_cast<int64_t>(batch->ptr.size())});
  const HostTensor edge_index = Ints(ends, {2, edges});
  const HostTensor x = TensorOf(batch->features.dense);
  GraphBatchRequest request;
  request.model = "proteins-ginpool";
  request.ptr = ptr.view();
  request.edge_index = edge_index.view();
  request.features.dense = x.view();
  const auto all = InferBatch(*engine, request);
  ASSERT_TRUE(all.ok()) << all.status();
  ExpectClose(*all, Expected("proteins-ginpool", "graph_logits"), 2e-6, "batch");

  // The first graph alone: the same bits, whatever else was in the batch.
  const int64_t nodes = batch->ptr[1];
  std::vector<int64_t> sources, targets;
  for (int64_t e = 0; e < edges; ++e) {
    if (batch->sources[e] < nodes) sources.push_back(batch->sources[e]), targets.push_back(batch->targets[e]);
  }
  const int64_t first_edges = static_cast<int64_t>(sources.size());
  sources.insert(sources.end(), targets.begin(), targets.end());
  const HostTensor first_ptr = Ints({0, nodes}, {2}), first_index = Ints(sources, {2, first_edges});
  const HostTensor first_x = {
      DataType::kFloat32, {nodes, batch->features.columns}, x.bytes.substr(0, nodes * batch->features.columns * 4)};
  request.ptr = first_ptr.view();
  request.edge_index = first_index.view();
  request.features.dense = first_x.view();
  const auto alone = InferBatch(*engine, request);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->values, std::vector<float>(all->values.begin(), all->values.begin() + all->width));
}

}  // namespace
}  // namespace vicinal::testing
