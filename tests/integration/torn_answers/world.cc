// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/torn_answers/world.h"

#include <random>
#include <vector>

#include "tests/integration/fixture.h"

namespace vicinal::testing {
namespace {

constexpr int64_t kEdges = 3000, kHidden = kTornHidden;

std::vector<float> RandomFloats(int64_t count, int64_t seed) {
  std::mt19937_64 random(static_cast<uint64_t>(seed));
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

OwnedTensor FeaturesOf(int64_t seed) {
  return Floats("x", {kTornNodes, kTornFeatures}, RandomFloats(kTornNodes * kTornFeatures, seed));
}

// The order is part of the seed, not `auto`: a quiet server must choose the same.
v1::Reorder OrderOf(int64_t seed) {
  constexpr v1::Reorder kOrders[] = {v1::REORDER_NONE, v1::REORDER_DEGREE, v1::REORDER_RCM, v1::REORDER_COMMUNITY};
  return kOrders[seed % 4];
}

}  // namespace

absl::StatusOr<int64_t> PutTornGraph(client::Client& client, int64_t seed) {
  std::mt19937_64 random(static_cast<uint64_t>(seed));
  std::vector<int64_t> ends(2 * kEdges);
  for (int64_t& end : ends) end = static_cast<int64_t>(random() % kTornNodes);
  const OwnedTensor edges = Ints("edge_index", {2, kEdges}, ends), x = FeaturesOf(seed);
  v1::UploadGraphSpec spec;
  spec.set_name("g");
  spec.set_node_count(kTornNodes);
  spec.set_replace(true);
  spec.set_reorder(OrderOf(seed));
  const auto graph = client.UploadGraph(spec, {edges.view(), x.view()});
  if (!graph.ok()) return graph.status();
  return graph->version();
}

absl::StatusOr<int64_t> PutTornFeatures(client::Client& client, int64_t seed) {
  const OwnedTensor x = FeaturesOf(seed);
  v1::UploadFeaturesSpec spec;
  spec.set_graph("g");
  spec.set_name("default");
  spec.set_replace(true);
  const auto features = client.UploadFeatures(spec, {x.view()});
  if (!features.ok()) return features.status();
  return features->version();
}

absl::StatusOr<int64_t> PutTornModel(client::Client& client, int64_t seed) {
  v1::UploadModelSpec spec;
  spec.set_name("m");
  spec.set_replace(true);
  spec.set_architecture_json(R"({"format": "vicinal.model/1", "in_channels": 12, "layers": [
    {"name": "conv1", "type": "GCNConv", "args": {"in_channels": 12, "out_channels": 16}},
    {"name": "act", "type": "ReLU"},
    {"name": "conv2", "type": "GCNConv", "args": {"in_channels": 16, "out_channels": 5}}]})");
  const OwnedTensor weights = Bytes(
      "weights",
      Safetensors({Floats("conv1.lin.weight", {kHidden, kTornFeatures}, RandomFloats(kHidden * kTornFeatures, seed)),
                   Floats("conv1.bias", {kHidden}, RandomFloats(kHidden, seed + 1)),
                   Floats("conv2.lin.weight", {kTornClasses, kHidden}, RandomFloats(kTornClasses * kHidden, seed + 2)),
                   Floats("conv2.bias", {kTornClasses}, RandomFloats(kTornClasses, seed + 3))}));
  const auto model = client.UploadModel(spec, {weights.view()});
  if (!model.ok()) return model.status();
  return model->version();
}

v1::ClassifyRequest AskAllNodes(v1::Precision precision) {
  v1::ClassifyRequest request;
  request.mutable_target()->set_graph("g");
  request.mutable_target()->set_model("m");
  request.mutable_nodes()->set_all(true);
  request.set_return_logits(true);
  request.mutable_execution()->set_precision(precision);
  return request;
}

}  // namespace vicinal::testing
