// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/world.h"

#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/create_engine.h"
#include "engine/tune/meter.h"
#include "tests/engine/model/safetensors_builder.h"
#include "tests/fuzz/target.h"

namespace vicinal::fuzz {
namespace {

constexpr std::chrono::microseconds kPoll{20};
constexpr std::chrono::seconds kPatience{10};

// Runs once and names a time, so that the choice does not depend on the machine. A long one: budgets end after a few
// rounds, and an input is done soon.
class ConstantMeter final : public RunMeter {
 public:
  StatusOr<RunSample> Measure(const TuningKey&, const KernelSetting&, const std::function<Status()>& run) override {
    VICINAL_RETURN_IF_ERROR(run());
    return RunSample{.seconds = 5.0};
  }
};

template <class T>
HostTensor Tensor(DataType dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return {dtype, std::move(shape), std::move(bytes)};
}

GraphSource SmallGraph() {
  GraphSource graph;
  graph.name = "g";
  graph.node_count = 5;
  graph.edge_index = Tensor<int32_t>(DataType::kInt32, {2, 6}, {0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 2});
  graph.edge_weight = Tensor<float>(DataType::kFloat32, {6}, {1, 2, 1, 0.5f, 1, 1});
  graph.x = Tensor<float>(DataType::kFloat32, {5, 2}, {0, 1, 1, 0, -1, 2, 3, 1, 0.5f, 0});
  graph.keep_edge_order = true;
  return graph;
}

ModelSource NodeModel() {
  ModelSource model;
  model.name = "m";
  model.architecture_json =
      R"({"format":"vicinal.model/1","in_channels":2,"layers":[{"name":"a","type":"GCNConv","args":{"out_channels":4}},)"
      R"({"name":"b","type":"ReLU"},{"name":"c","type":"SAGEConv","args":{"out_channels":3}}]})";
  model.weights_file = testing::SafetensorsBuilder()
                           .AddRamp("a.lin.weight", {4, 2})
                           .AddRamp("a.bias", {4})
                           .AddRamp("c.lin_l.weight", {3, 4})
                           .AddRamp("c.lin_l.bias", {3})
                           .AddRamp("c.lin_r.weight", {3, 4})
                           .Build();
  return model;
}

ModelSource PoolModel() {
  ModelSource model;
  model.name = "p";
  model.architecture_json =
      R"({"format":"vicinal.model/1","in_channels":2,"task":"graph","layers":[)"
      R"({"name":"a","type":"GCNConv","args":{"out_channels":3}},{"name":"b","type":"global_mean_pool"}]})";
  model.weights_file = testing::SafetensorsBuilder().AddRamp("a.lin.weight", {3, 2}).AddRamp("a.bias", {3}).Build();
  return model;
}

server::Limits SmallLimits() {
  server::Limits limits;
  limits.max_message_bytes = 1 << 20;
  limits.max_chunk_bytes = 1 << 16;
  limits.max_nodes = 1000;
  limits.max_edges = 5000;
  limits.max_features = 100;
  limits.max_upload_bytes = 1 << 20;
  limits.max_open_uploads = 3;
  limits.max_request_nodes = 500;
  limits.max_response_bytes = 20000;
  limits.max_batch_graphs = 20;
  limits.max_graphs = 4;
  limits.max_feature_sets = 3;
  limits.max_models = 4;
  limits.memory_budget_bytes = 32 << 20;
  return limits;
}

EngineOptions SmallEngine(const server::Limits& limits) {
  EngineOptions options;
  options.num_threads = 1;
  options.device = "cpu";
  options.memory_budget_bytes = limits.memory_budget_bytes;
  options.max_queue = 8;
  options.max_preparations = 8;
  options.max_cached_plans = 8;
  options.max_graphs = limits.max_graphs;
  options.max_feature_sets = limits.max_feature_sets;
  options.max_models = limits.max_models;
  options.max_nodes = limits.max_nodes;
  options.tuning_budget = {};
  return options;
}

}  // namespace

World::World() : limits(SmallLimits()) {
  static ConstantMeter meter;
  auto made = CreateEngineWithMeter(SmallEngine(limits), &meter);
  FUZZ_CHECK(made.ok(), made.status().ToString());
  engine = *std::move(made);
  const auto graph = engine->PutGraph(SmallGraph());
  FUZZ_CHECK(graph.ok(), graph.status().ToString());
  AwaitPreparation();
  FUZZ_CHECK(engine->GetGraph("g")->state == GraphState::kReady, "the graph of the world");
  for (ModelSource source : {NodeModel(), PoolModel()}) {
    const auto model = engine->PutModel(std::move(source), {});
    FUZZ_CHECK(model.ok(), model.status().ToString());
  }
}

void World::AwaitPreparation() const {
  for (const GraphResource& graph : engine->ListGraphs()) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (true) {
      const auto now = engine->GetGraph(graph.name);
      if (!now.ok() || now->state != GraphState::kPreparing) break;
      FUZZ_CHECK(std::chrono::steady_clock::now() < end, "preparation does not end");
      std::this_thread::sleep_for(kPoll);
    }
  }
}

void World::CheckNothingReserved() const {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (true) {
    const MemoryUse use = engine->memory().Snapshot();
    if (use.uploads + use.requests + use.preparing + use.tuning == 0) return;
    FUZZ_CHECK(std::chrono::steady_clock::now() < end, "bytes still reserved: uploads " + std::to_string(use.uploads) +
                                                           ", requests " + std::to_string(use.requests) +
                                                           ", preparing " + std::to_string(use.preparing) +
                                                           ", tuning " + std::to_string(use.tuning));
    std::this_thread::sleep_for(kPoll);
  }
}

}  // namespace vicinal::fuzz
