// SPDX-License-Identifier: Apache-2.0
// Times the best partners of nodes through the engine's door: rows of all nodes are kept, so that a request is the
// search alone, from its submission to its answer. bench/top_links.py makes the rows and runs FAISS beside it.
//   vicinal_bench_top_links --rows=FILE --width=D [--queries=Q] [--k=K] [--threads=T] [--repeats=R] [--out=FILE]
// FILE: float32 [N, D], raw. The nodes asked for are the first Q. `out`: their partners, int64 [Q, K], raw.
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "engine/api/engine.h"
#include "engine/api/links.h"
#include "engine/base/check.h"

ABSL_FLAG(std::string, rows, "", "raw float32 rows of the nodes");
ABSL_FLAG(int64_t, width, 64, "columns of a row");
ABSL_FLAG(int64_t, queries, 1000, "nodes asked for");
ABSL_FLAG(int64_t, k, 10, "partners of each");
ABSL_FLAG(int32_t, threads, 2, "threads");
ABSL_FLAG(int64_t, repeats, 5, "runs");
ABSL_FLAG(std::string, out, "", "where the partners are written");

namespace vicinal::bench {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A safetensors file with the identity, so that the model's output is its input.
std::string Identity(int64_t width) {
  const nlohmann::json header = {
      {"out.weight", {{"dtype", "F32"}, {"shape", {width, width}}, {"data_offsets", {0, width * width * 4}}}}};
  const std::string text = header.dump();
  const auto length = static_cast<uint64_t>(text.size());
  std::vector<float> values(static_cast<size_t>(width * width));
  for (int64_t i = 0; i < width; ++i) values[static_cast<size_t>(i * width + i)] = 1;
  std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
  file += text;
  file.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return file;
}

void PutWorld(Engine& engine, std::string rows, int64_t nodes, int64_t width) {
  GraphSource graph;
  graph.name = "g";
  graph.node_count = nodes;
  graph.edge_index = {DataType::kInt64, {2, 0}, ""};
  graph.x = HostTensor{DataType::kFloat32, {nodes, width}, std::move(rows)};
  graph.order = OrderKind::kNone;
  VICINAL_CHECK(engine.PutGraph(std::move(graph)).ok());
  std::promise<void> ready;
  bool told = false;
  const auto watch = engine.WatchGraph("g", [&] {
    const auto state = engine.GetGraph("g");
    if (told || !state.ok() || state->state != GraphState::kReady) return;
    told = true;
    ready.set_value();
  });
  if (engine.GetGraph("g")->state != GraphState::kReady) ready.get_future().wait();
  ModelSource model;
  model.name = "m";
  const std::string size = std::to_string(width);
  model.architecture_json = R"({"format": "vicinal.model/1", "in_channels": )" + size +
                            R"(, "layers": [{"name": "out", "type": "Linear", "args": {"in_channels": )" + size +
                            R"(, "out_channels": )" + size + R"(, "bias": false}}]})";
  model.weights_file = Identity(width);
  VICINAL_CHECK(engine.PutModel(std::move(model), {}).ok());
}

InferenceResult Ask(Engine& engine, const std::shared_ptr<const WantedLinks>& links) {
  InferenceRequest request;
  request.graph = "g";
  request.model = "m";
  request.links = links;
  auto answer = std::make_shared<std::promise<StatusOr<InferenceResult>>>();
  const Status queued = engine.Submit(
      std::move(request), [answer](StatusOr<InferenceResult> result) { answer->set_value(std::move(result)); });
  VICINAL_CHECK(queued.ok());
  StatusOr<InferenceResult> result = answer->get_future().get();
  VICINAL_CHECK(result.ok());
  return *std::move(result);
}

void Main() {
  const int64_t width = absl::GetFlag(FLAGS_width);
  std::string rows = ReadFile(absl::GetFlag(FLAGS_rows));
  const int64_t nodes = static_cast<int64_t>(rows.size()) / (4 * width);
  EngineOptions options;
  options.device = "cpu";
  options.num_threads = absl::GetFlag(FLAGS_threads);
  options.keep_answers = KeepAnswers::kAlways;
  options.max_answer_bytes = int64_t{8} << 30;
  const auto engine = *Engine::Create(options);
  PutWorld(*engine, std::move(rows), nodes, width);
  auto links = std::make_shared<WantedLinks>();
  WantedPartners& wanted = links->partners.emplace();
  wanted.nodes.ids.resize(static_cast<size_t>(absl::GetFlag(FLAGS_queries)));
  std::iota(wanted.nodes.ids.begin(), wanted.nodes.ids.end(), int64_t{0});
  wanted.partners.all = true;
  wanted.k = absl::GetFlag(FLAGS_k);
  wanted.include_self = true;
  InferenceResult result = Ask(*engine, links);
  while (!result.kept) result = Ask(*engine, links);
  std::vector<double> seconds, processor_seconds;  // the latter of all threads
  for (int64_t i = 0; i < absl::GetFlag(FLAGS_repeats); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const std::clock_t processor = std::clock();
    result = Ask(*engine, links);
    processor_seconds.push_back(static_cast<double>(std::clock() - processor) / CLOCKS_PER_SEC);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  if (const std::string out = absl::GetFlag(FLAGS_out); !out.empty()) {
    std::ofstream(out, std::ios::binary)
        .write(reinterpret_cast<const char*>(result.links.data()),
               static_cast<std::streamsize>(result.links.size() * sizeof(int64_t)));
  }
  const nlohmann::json json = {
      {"instruction_set", Engine::InstructionSet()}, {"seconds", seconds}, {"processor_seconds", processor_seconds}};
  std::printf("%s\n", json.dump().c_str());
}

}  // namespace
}  // namespace vicinal::bench

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  vicinal::bench::Main();
}
