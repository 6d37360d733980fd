// SPDX-License-Identifier: Apache-2.0
// The small models of tests/data/layers through the engine's door: each layer type and argument, in every order, with
// every kernel forced that takes it; models of graphs in one batch.
#include "tests/engine/api/reference_models.h"

namespace vicinal::testing {
namespace {

// Models of one row per node, or per graph.
std::vector<ReferenceModel> LayerModels(const std::string& data) {
  std::vector<ReferenceModel> models;
  for (const auto& file : std::filesystem::directory_iterator(std::string(VICINAL_TEST_DATA) + "/layers")) {
    if (file.path().extension() != ".json") continue;
    const std::string name = file.path().stem().string();
    if (ReadTestFile("layers/" + name + ".json").find("\"dataset\": \"" + data + "\"") != std::string::npos)
      models.push_back({name, data, 2e-6, "layers"});
  }
  std::sort(models.begin(), models.end(), [](const auto& a, const auto& b) { return a.model < b.model; });
  return models;
}

class LayerModelsTest : public ::testing::TestWithParam<ReferenceModel> {};
TEST_P(LayerModelsTest, EveryOrderIsExactAndRepeats) { CheckEveryOrder(GetParam()); }
TEST_P(LayerModelsTest, EveryKernelForcedIsExactAndRuns) { CheckEveryKernel(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Nodes, LayerModelsTest, ::testing::ValuesIn(LayerModels("tiny")), CaseName);

class LayerGraphModelsTest : public ::testing::TestWithParam<ReferenceModel> {};
TEST_P(LayerGraphModelsTest, GraphsInOneBatch) {
  Engine& engine = ReferenceBench::TheEngine();
  PutModel(engine, GetParam().model, "layers");
  const auto batch = client::ReadGraphBatch(std::string(VICINAL_TEST_DATA) + "/graphs/tiny_batch.npz");
  ASSERT_TRUE(batch.ok()) << batch.status();
  std::vector<int64_t> ends = batch->sources;
  ends.insert(ends.end(), batch->targets.begin(), batch->targets.end());
  const HostTensor ptr = Ints(batch->ptr, {static_cast<int64_t>(batch->ptr.size())});
  const HostTensor edge_index = Ints(ends, {2, static_cast<int64_t>(batch->sources.size())});
  const HostTensor x = TensorOf(batch->features.dense);
  const HostTensor edge_attr =
      Floats(batch->edge_features, {static_cast<int64_t>(batch->sources.size()), batch->edge_feature_width});
  GraphBatchRequest request;
  request.model = GetParam().model;
  request.ptr = ptr.view();
  request.edge_index = edge_index.view();
  request.edge_attr = edge_attr.view();
  request.features.dense = x.view();
  const auto all = InferBatch(engine, request);
  ASSERT_TRUE(all.ok()) << all.status();
  ExpectClose(*all, Expected(GetParam().model, "graph_logits", "layers"), 2e-6, "batch");
}
INSTANTIATE_TEST_SUITE_P(Graphs, LayerGraphModelsTest, ::testing::ValuesIn(LayerModels("tiny_batch")), CaseName);

}  // namespace
}  // namespace vicinal::testing
