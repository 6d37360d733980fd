// SPDX-License-Identifier: Apache-2.0
// What a query for a few nodes costs over their receptive field against the full graph: a GCN of two layers over random
// features, each request through the engine's door, from Submit to the answer. For every number of nodes and in every
// round the same nodes are asked for three ways (always, never, auto), in turn, so that all see the same machine.
// Prints medians (of requests over fields in parts: finding the field, its inputs, all of the run), the median of the
// ratios, and what `auto` chose and lost, as JSON. With --replace each request brings the features of so many nodes,
// half of them (at most all) of the nodes that it asks for; `submit` is the part before the queue, where a request that
// wants the full graph (`never`) copies all features.
//   vicinal_bench_subsets GRAPH [--device=cpu|cuda:N] [--rounds=N] [--threads=N] [--features=F] [--hidden=H]
//       [--counts=1,10,100] [--replace=ROWS]
// GRAPH: an npz file, an edge list, a MatrixMarket file, or a NAME.bin of vicinal_bench_graphs.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <future>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "bench/binary_graph.h"
#include "bench/program.h"
#include "client/cpp/formats/graph_file.h"
#include "engine/api/engine.h"
#include "engine/base/mutex.h"
#include "tests/engine/model/safetensors_builder.h"

ABSL_FLAG(std::string, device, "cpu", "Where it runs: cpu, or cuda:N.");
ABSL_FLAG(int, rounds, 30, "Requests of each kind that are measured, each for other nodes.");
ABSL_FLAG(int, threads, 0, "Threads of the engine; 0: one per core.");
ABSL_FLAG(int64_t, features, 64, "Columns of the features.");
ABSL_FLAG(int64_t, hidden, 16, "Columns of both layers.");
ABSL_FLAG(int64_t, replace, 0, "Rows of features that each request replaces.");
ABSL_FLAG(std::string, counts, "1,10,100", "Numbers of nodes to ask for.");

namespace vicinal::bench {
namespace {

std::vector<float> Draw(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> draw(-1.0f, 1.0f);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = draw(random);
  return values;
}

ModelSource TwoLayers(int64_t features, int64_t hidden) {
  ModelSource source;
  source.name = "gcn";
  source.architecture_json = absl::StrCat(R"({"format": "vicinal.model/1", "in_channels": )", features, R"(, "layers": [
        {"name": "conv1", "type": "GCNConv", "args": {"in_channels": )",
                                          features, R"(, "out_channels": )", hidden, R"(}},
        {"name": "act", "type": "ReLU"},
        {"name": "conv2", "type": "GCNConv", "args": {"in_channels": )",
                                          hidden, R"(, "out_channels": )", hidden, R"(}}]})");
  source.weights_file = testing::SafetensorsBuilder()
                            .Add("conv1.lin.weight", {hidden, features}, Draw(hidden * features, 1))
                            .Add("conv1.bias", {hidden}, Draw(hidden, 2))
                            .Add("conv2.lin.weight", {hidden, hidden}, Draw(hidden * hidden, 3))
                            .Add("conv2.bias", {hidden}, Draw(hidden, 4))
                            .Build();
  return source;
}

struct Graph {
  int64_t nodes = 0;
  HostTensor edge_index;
};

Graph FromBinary(const BinaryGraph& binary) {
  std::vector<int32_t> ends = binary.col;
  ends.reserve(2 * binary.col.size());
  for (int64_t row = 0; row < binary.nodes; ++row) {
    ends.insert(ends.end(), static_cast<size_t>(binary.row_ptr[row + 1] - binary.row_ptr[row]),
                static_cast<int32_t>(row));
  }
  std::string bytes(reinterpret_cast<const char*>(ends.data()), ends.size() * sizeof(int32_t));
  return {binary.nodes, {DataType::kInt32, {2, binary.edges()}, std::move(bytes)}};
}

StatusOr<Graph> ReadGraph(const std::string& path) {
  if (path.ends_with(".bin")) {
    VICINAL_ASSIGN_OR_RETURN(const BinaryGraph binary, ReadBinaryGraph(path));
    return FromBinary(binary);
  }
  VICINAL_ASSIGN_OR_RETURN(const auto file, client::ReadGraphFile(path, {}));
  const client::Array& array = file.edge_index;
  const DataType type = array.type == client::ElementType::kInt32 ? DataType::kInt32 : DataType::kInt64;
  return Graph{file.node_count, {type, array.shape, array.data}};
}

// Waits until the graph serves.
bool Prepare(Engine& engine, GraphSource source) {
  const std::string name = source.name;
  std::promise<void> ended;
  bool told = false;
  const auto look = [&] {
    const auto status = engine.GetGraph(name);
    if (told || (status.ok() && status->state == GraphState::kPreparing)) return;
    told = true;
    ended.set_value();
  };
  if (!engine.PutGraph(std::move(source)).ok()) return false;
  auto watch = engine.WatchGraph(name, look);
  if (!watch.ok()) return false;
  if (engine.GetGraph(name)->state == GraphState::kPreparing) ended.get_future().wait();
  watch->reset();
  return engine.GetGraph(name)->state == GraphState::kReady;
}

struct Answer {
  double seconds = 0.0;
  double submit_seconds = 0.0;
  InferenceResult result;
};

// What each phase of the request that ran last took.
class LastPhases final : public StatsSink {
 public:
  void StageSeconds(std::string_view, double) override {}
  void PhaseSeconds(std::string_view phase, double seconds) override {
    MutexLock lock(&mutex_);
    seconds_[std::string(phase)] = seconds;
  }
  void QueueDepth(int64_t) override {}
  double Microseconds(const char* phase) {
    MutexLock lock(&mutex_);
    return seconds_[phase] * 1e6;
  }

 private:
  Mutex mutex_;
  std::map<std::string, double> seconds_ VICINAL_GUARDED_BY(mutex_);
};

// Features that a request brings for some nodes.
struct Replacement {
  std::vector<int64_t> rows;
  std::vector<float> values;

  Replacement(const std::vector<int64_t>& ids, int64_t count, int64_t num_nodes, int64_t width, uint64_t seed)
      : values(Draw(count * width, seed)) {
    std::mt19937_64 random(seed);
    std::set<int64_t> chosen(ids.begin(), ids.begin() + std::min<int64_t>(count / 2, static_cast<int64_t>(ids.size())));
    while (static_cast<int64_t>(chosen.size()) < count) {
      chosen.insert(static_cast<int64_t>(random() % static_cast<uint64_t>(num_nodes)));
    }
    rows.assign(chosen.begin(), chosen.end());
  }
  RequestFeatures Features(int64_t width) const {
    RequestFeatures features;
    features.tensors.dense = TensorView{DataType::kFloat32,
                                        {static_cast<int64_t>(rows.size()), width},
                                        {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)}};
    features.rows = rows;
    return features;
  }
};

// `replacement`: without rows, the request brings no features.
StatusOr<Answer> Ask(Engine& engine, const std::vector<int64_t>& ids, const Replacement& replacement,
                     ReceptiveField receptive_field) {
  InferenceRequest request;
  request.graph = "graph";
  request.model = "gcn";
  request.nodes.ids = ids;
  request.options.receptive_field = receptive_field;
  if (!replacement.rows.empty()) request.features = replacement.Features(absl::GetFlag(FLAGS_features));
  std::promise<StatusOr<InferenceResult>> answered;
  const auto begin = std::chrono::steady_clock::now();
  VICINAL_RETURN_IF_ERROR(engine.Submit(
      std::move(request), [&](StatusOr<InferenceResult> result) { answered.set_value(std::move(result)); }));
  const std::chrono::duration<double> submitted = std::chrono::steady_clock::now() - begin;
  StatusOr<InferenceResult> result = answered.get_future().get();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  VICINAL_RETURN_IF_ERROR(result.status());
  return Answer{took.count(), submitted.count(), *std::move(result)};
}

// All that is measured for one number of nodes.
struct Rounds {
  std::vector<double> field_us, full_us, auto_us, ratios, regrets, computed_nodes;
  std::vector<double> search_us, inputs_us, execute_us;  // of field_us
  std::vector<double> field_submit_us, full_submit_us;
  int chose_field = 0;

  // False when an answer differs: then no figure means anything.
  bool Take(const Answer& field, const Answer& full, const Answer& chosen) {
    field_us.push_back(field.seconds * 1e6);
    full_us.push_back(full.seconds * 1e6);
    auto_us.push_back(chosen.seconds * 1e6);
    field_submit_us.push_back(field.submit_seconds * 1e6);
    full_submit_us.push_back(full.submit_seconds * 1e6);
    ratios.push_back(full.seconds / field.seconds);
    regrets.push_back(chosen.seconds / std::min(field.seconds, full.seconds));
    computed_nodes.push_back(static_cast<double>(field.result.computed_nodes));
    chose_field += chosen.result.receptive_field ? 1 : 0;
    const size_t bytes = full.result.values.size() * sizeof(float);
    return std::memcmp(field.result.values.data(), full.result.values.data(), bytes) == 0 &&
           std::memcmp(chosen.result.values.data(), full.result.values.data(), bytes) == 0;
  }

  nlohmann::ordered_json Json(int64_t count) const {
    return {{"nodes", count},
            {"computed_nodes_median", Quantile(computed_nodes, 0.5)},
            {"computed_nodes_max", Quantile(computed_nodes, 1.0)},
            {"field_us", {{"median", Quantile(field_us, 0.5)}, {"p90", Quantile(field_us, 0.9)}}},
            {"field_parts_us",
             {{"search", Quantile(search_us, 0.5)},
              {"inputs", Quantile(inputs_us, 0.5)},
              {"execute", Quantile(execute_us, 0.5)}}},
            {"full_us", {{"median", Quantile(full_us, 0.5)}, {"p90", Quantile(full_us, 0.9)}}},
            {"auto_us", {{"median", Quantile(auto_us, 0.5)}, {"p90", Quantile(auto_us, 0.9)}}},
            {"submit_us", {{"field", Quantile(field_submit_us, 0.5)}, {"full", Quantile(full_submit_us, 0.5)}}},
            {"ratio_of_medians", Quantile(full_us, 0.5) / Quantile(field_us, 0.5)},
            {"ratio", {{"median", Quantile(ratios, 0.5)}, {"p10", Quantile(ratios, 0.1)}}},
            {"auto_chose_field", static_cast<double>(chose_field) / static_cast<double>(ratios.size())},
            {"auto_over_best", {{"median", Quantile(regrets, 0.5)}, {"p90", Quantile(regrets, 0.9)}}}};
  }
};

bool Measure(Engine& engine, int64_t count, int64_t num_nodes, int rounds, LastPhases* phases, Rounds* measured) {
  std::mt19937_64 random(static_cast<uint64_t>(count));
  for (int round = -2; round < rounds; ++round) {  // the first two warm up
    std::vector<int64_t> ids(static_cast<size_t>(count));
    for (int64_t& id : ids) id = static_cast<int64_t>(random() % static_cast<uint64_t>(num_nodes));
    const Replacement replacement(ids, std::min(absl::GetFlag(FLAGS_replace), num_nodes), num_nodes,
                                  absl::GetFlag(FLAGS_features), random());
    Rounds warm;
    Rounds& taken = round < 0 ? warm : *measured;
    const auto field = Ask(engine, ids, replacement, ReceptiveField::kAlways);
    taken.search_us.push_back(phases->Microseconds("receptive_field"));
    taken.inputs_us.push_back(phases->Microseconds("field_features"));
    taken.execute_us.push_back(phases->Microseconds("execute"));
    const auto full = Ask(engine, ids, replacement, ReceptiveField::kNever);
    const auto chosen = Ask(engine, ids, replacement, ReceptiveField::kAuto);
    if (!field.ok() || !full.ok() || !chosen.ok()) return false;
    if (!taken.Take(*field, *full, *chosen)) return false;
  }
  return true;
}

int Main(const std::string& path) {
  auto graph = ReadGraph(path);
  if (!graph.ok()) return std::fprintf(stderr, "%s\n", graph.status().ToString().c_str()), 1;
  EngineOptions options;
  options.device = absl::GetFlag(FLAGS_device);
  options.num_threads = absl::GetFlag(FLAGS_threads);
  options.tuning_budget = Nanoseconds::zero();  // nothing runs beside what is measured
  LastPhases phases;
  options.stats = &phases;
  auto engine = Engine::Create(options);
  if (!engine.ok()) return std::fprintf(stderr, "%s\n", engine.status().ToString().c_str()), 1;
  const int64_t features = absl::GetFlag(FLAGS_features), hidden = absl::GetFlag(FLAGS_hidden);
  const int64_t nodes = graph->nodes, edges = graph->edge_index.shape[1];
  GraphSource source;
  source.name = "graph";
  source.node_count = nodes;
  source.edge_index = std::move(graph->edge_index);
  source.feature_count = features;
  const std::vector<float> x = Draw(nodes * features, 5);
  source.x = HostTensor{DataType::kFloat32,
                        {nodes, features},
                        std::string(reinterpret_cast<const char*>(x.data()), x.size() * sizeof(float))};
  source.order = OrderKind::kNone;  // ids as the data set has them
  if (!Prepare(**engine, std::move(source))) return std::fprintf(stderr, "the graph was not prepared\n"), 1;
  if (const auto model = (*engine)->PutModel(TwoLayers(features, hidden), {}); !model.ok()) {
    return std::fprintf(stderr, "%s\n", model.status().ToString().c_str()), 1;
  }
  nlohmann::ordered_json cases = nlohmann::ordered_json::array();
  std::stringstream counts(absl::GetFlag(FLAGS_counts));
  for (std::string count; std::getline(counts, count, ',');) {
    Rounds measured;
    if (!Measure(**engine, std::stoll(count), nodes, absl::GetFlag(FLAGS_rounds), &phases, &measured)) {
      return std::fprintf(stderr, "an answer failed or differs\n"), 1;
    }
    cases.push_back(measured.Json(std::stoll(count)));
  }
  const nlohmann::ordered_json json = {
      {"bench", "subsets"},
      {"what", absl::StrCat("GCN ", features, "-", hidden, "-", hidden,
                            " for some nodes: receptive field against the full graph")},
      {"device", (*engine)->Devices()[0].description},
      {"num_nodes", nodes},
      {"num_edges", edges},
      {"rounds", absl::GetFlag(FLAGS_rounds)},
      {"replaced_rows", absl::GetFlag(FLAGS_replace)},
      {"cases", cases}};
  std::printf("%s\n", json.dump(1).c_str());
  return 0;
}

}  // namespace
}  // namespace vicinal::bench

int main(int argc, char** argv) {
  return vicinal::bench::RunWithWord(argc, argv, "vicinal_bench_subsets GRAPH", vicinal::bench::Main);
}
