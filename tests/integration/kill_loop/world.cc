// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/kill_loop/world.h"

#include <random>

#include "tests/integration/fixture.h"

namespace vicinal::testing {
namespace {

constexpr int64_t kMinNodes = 10'000;
constexpr int64_t kEdgesPerNode = 12;

std::vector<float> SmallIntegers(size_t count, std::mt19937_64& random) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(static_cast<int64_t>(random() % 7) - 3);
  return values;
}

float Dot(const std::vector<float>& weights, int64_t row, const float* x) {
  float sum = 0;
  for (int64_t f = 0; f < kFeatures; ++f) sum += weights[row * kFeatures + f] * x[f];
  return sum;
}

}  // namespace

SeededGraph MakeGraph(int64_t seed) {
  std::mt19937_64 random(static_cast<uint64_t>(seed));
  SeededGraph graph;
  graph.nodes = kMinNodes + static_cast<int64_t>(random() % kMinNodes);
  const auto any_node = [&] { return static_cast<int64_t>(random() % static_cast<uint64_t>(graph.nodes)); };
  for (int64_t i = 0; i < graph.nodes * kEdgesPerNode; ++i) {
    graph.sources.push_back(any_node());
    graph.targets.push_back(any_node());
  }
  graph.x = SmallIntegers(static_cast<size_t>(graph.nodes * kFeatures), random);
  return graph;
}

SeededModel MakeModel(int64_t seed) {
  std::mt19937_64 random(static_cast<uint64_t>(seed));
  return {SmallIntegers(kClasses * kFeatures, random), SmallIntegers(kClasses * kFeatures, random)};
}

std::vector<float> MakeFeatures(int64_t seed, int64_t nodes) {
  std::mt19937_64 random(static_cast<uint64_t>(seed));
  return SmallIntegers(static_cast<size_t>(nodes * kFeatures), random);
}

std::string Architecture() {
  return R"({"format": "vicinal.model/1", "in_channels": 8, "layers": [
    {"name": "conv", "type": "GraphConv", "args": {"in_channels": 8, "out_channels": 4, "bias": false}}]})";
}

std::string WeightsOf(const SeededModel& model) {
  return Safetensors({Floats("conv.lin_rel.weight", {kClasses, kFeatures}, model.rel),
                      Floats("conv.lin_root.weight", {kClasses, kFeatures}, model.root)});
}

std::vector<int64_t> AskedNodes() {
  std::vector<int64_t> nodes(kAskedNodes);
  for (int64_t i = 0; i < kAskedNodes; ++i) nodes[i] = i * (kMinNodes / kAskedNodes);
  return nodes;
}

std::vector<float> Answer(const SeededGraph& graph, const SeededModel& model) {
  const std::vector<int64_t> nodes = AskedNodes();
  const int64_t stride = nodes[1];
  std::vector<float> logits(kAskedNodes * kClasses);
  const auto add = [&](int64_t asked, const std::vector<float>& weights, int64_t source) {
    for (int64_t c = 0; c < kClasses; ++c) {
      logits[asked * kClasses + c] += Dot(weights, c, &graph.x[source * kFeatures]);
    }
  };
  for (int64_t i = 0; i < kAskedNodes; ++i) add(i, model.root, nodes[i]);
  for (size_t e = 0; e < graph.targets.size(); ++e) {
    const int64_t target = graph.targets[e];
    if (target % stride == 0 && target / stride < kAskedNodes) add(target / stride, model.rel, graph.sources[e]);
  }
  return logits;
}

}  // namespace vicinal::testing
