// SPDX-License-Identifier: Apache-2.0
// A graph of six nodes, a GCN of two layers and a pooled model for it, as tests of the engine's door put them in.
#ifndef VICINAL_TESTS_ENGINE_API_SMALL_WORLD_H_
#define VICINAL_TESTS_ENGINE_API_SMALL_WORLD_H_

#include <string>
#include <vector>

#include "tests/engine/api/engine_testing.h"
#include "tests/engine/model/safetensors_builder.h"

namespace vicinal::testing {

inline constexpr int64_t kSmallNodes = 6;
inline constexpr int64_t kSmallFeatures = 3;
inline constexpr char kSmallGcn[] = R"({
  "format": "vicinal.model/1", "in_channels": 3,
  "layers": [
    {"name": "conv1", "type": "GCNConv", "args": {"in_channels": 3, "out_channels": 4}},
    {"name": "act", "type": "ReLU"},
    {"name": "conv2", "type": "GCNConv", "args": {"in_channels": 4, "out_channels": 2}}
  ]})";
// Reads two features of each edge.
inline constexpr char kSmallGine[] =
    R"({"format": "vicinal.model/1", "in_channels": 3, "layers": [{"name": "c", "type": "GINEConv",
    "args": {"edge_dim": 2, "nn": [{"type": "Linear", "args": {"out_channels": 2}}]}}]})";
inline constexpr char kSmallPooled[] = R"({
  "format": "vicinal.model/1", "in_channels": 3, "task": "graph",
  "layers": [
    {"name": "conv", "type": "GCNConv", "args": {"in_channels": 3, "out_channels": 4}},
    {"name": "pool", "type": "global_mean_pool"},
    {"name": "lin", "type": "Linear", "args": {"in_channels": 4, "out_channels": 2}}
  ]})";

// `first` tells versions apart.
inline std::string SmallGcnWeights(float first = -0.5f) {
  return SafetensorsBuilder()
      .AddRamp("conv1.lin.weight", {4, 3}, first)
      .AddRamp("conv1.bias", {4})
      .AddRamp("conv2.lin.weight", {2, 4}, first)
      .AddRamp("conv2.bias", {2})
      .Build();
}
inline std::string SmallGineWeights() {
  return SafetensorsBuilder()
      .AddRamp("c.lin.weight", {3, 2})
      .AddRamp("c.lin.bias", {3})
      .AddRamp("c.nn.0.weight", {2, 3})
      .AddRamp("c.nn.0.bias", {2})
      .Build();
}
inline std::string SmallPooledWeights() {
  return SafetensorsBuilder()
      .AddRamp("conv.lin.weight", {4, 3})
      .AddRamp("conv.bias", {4})
      .AddRamp("lin.weight", {2, 4})
      .AddRamp("lin.bias", {2})
      .Build();
}

inline std::vector<int64_t> SmallEnds() { return {0, 1, 2, 3, 3, 4, 1, 2, 0, 3, 4, 0}; }
inline std::vector<float> SmallRows(float first = 0.25f) {
  std::vector<float> x;
  for (int64_t i = 0; i < kSmallNodes * kSmallFeatures; ++i) x.push_back(first + 0.5f * static_cast<float>(i % 7));
  return x;
}

inline GraphSource SmallGraph(const std::string& name, float first = 0.25f) {
  GraphSource source;
  source.name = name;
  source.node_count = kSmallNodes;
  source.edge_index = Ints(SmallEnds(), {2, 6});
  source.x = Floats(SmallRows(first), {kSmallNodes, kSmallFeatures});
  source.order = OrderKind::kRcm;
  return source;
}

inline ModelSource SmallModel(const std::string& name, float first = -0.5f) {
  ModelSource source;
  source.name = name;
  source.architecture_json = kSmallGcn;
  source.weights_file = SmallGcnWeights(first);
  return source;
}

inline void PutSmallWorld(Engine& engine) {
  ASSERT_TRUE(engine.PutGraph(SmallGraph("g")).ok());
  const auto status = AwaitGraph(engine, "g");
  ASSERT_TRUE(status.ok() && status->state == GraphState::kReady) << status.status();
  const auto model = engine.PutModel(SmallModel("m"), {});
  ASSERT_TRUE(model.ok()) << model.status();
}

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_API_SMALL_WORLD_H_
