// SPDX-License-Identifier: Apache-2.0
// How good the tuner's choice is: each cell (graph x reduce x width) is tuned through the engine, as a server would,
// and then every candidate, those the tuner never ran included, is timed against all others in interleaved rounds on
// the whole graph. Told per cell: the choice, the best, and the loss (median over rounds of the choice's time / the
// best one's); in sum: the share of cells within 5 % and the worst.
//   vicinal_bench_tuner GRAPH.npz... [--widths=16,32] [--kinds=sum] [--threads=N] [--budget_ms=MS] [--rounds=N]
//                       [--seconds=S] [--json=FILE]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <future>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "bench/program.h"
#include "client/cpp/formats/graph_file.h"
#include "engine/api/engine.h"
#include "engine/graph/adjacency.h"
#include "engine/graph/validate.h"
#include "engine/tune/contest.h"
#include "engine/tune/trial.h"

ABSL_FLAG(std::vector<std::string>, widths, (std::vector<std::string>{"16", "32", "64", "128", "256", "512"}),
          "Columns aggregated.");
ABSL_FLAG(std::vector<std::string>, kinds, std::vector<std::string>{"sum"}, "Reduces: sum, mean, max, min.");
ABSL_FLAG(int, threads, 0, "0: one per core.");
ABSL_FLAG(int, budget_ms, 500, "The tuner's, per cell.");
ABSL_FLAG(int, rounds, 200, "Of the exhaustive search, at most.");
ABSL_FLAG(double, seconds, 2.0, "Of the exhaustive search per cell, at least 9 rounds.");
ABSL_FLAG(std::string, json, "", "File for the results.");

namespace vicinal::bench {
namespace {

constexpr int kFewestRounds = 9;

HostTensor Ends(const client::Array& array) {
  return {array.type == client::ElementType::kInt32 ? DataType::kInt32 : DataType::kInt64, array.shape, array.data};
}

struct Graph {
  std::string path;
  GraphSource source;
  Csr csr;  // as sent, which is the order the engine is told to keep
};

Graph Read(const std::string& path) {
  auto file = client::ReadGraphFile(path, {});
  if (!file.ok()) std::fprintf(stderr, "%s\n", std::string(file.status().message()).c_str()), std::exit(1);
  Graph graph;
  graph.path = path;
  graph.source.name = "graph";
  graph.source.node_count = file->node_count;
  graph.source.edge_index = Ends(file->edge_index);
  graph.source.order = OrderKind::kNone;
  graph.source.replace = true;
  const HostTensor& tensor = graph.source.edge_index;
  EdgeList edges;
  edges.num_nodes = file->node_count;
  const int64_t count = tensor.shape[1];
  const auto end = [&](int64_t i) {
    return tensor.dtype == DataType::kInt32
               ? reinterpret_cast<const int32_t*>(tensor.bytes.data())[i]
               : static_cast<int32_t>(reinterpret_cast<const int64_t*>(tensor.bytes.data())[i]);
  };
  for (int64_t e = 0; e < count; ++e) edges.source.push_back(end(e)), edges.target.push_back(end(count + e));
  graph.csr = BuildCsrByTarget(edges);
  return graph;
}

void Put(Engine& engine, const GraphSource& source) {
  std::promise<void> ended;
  bool told = false;
  const auto look = [&] {
    const auto status = engine.GetGraph(source.name);
    if (told || (status.ok() && status->state == GraphState::kPreparing)) return;
    told = true;
    ended.set_value();
  };
  Must(engine.PutGraph(source).status());
  auto watch = engine.WatchGraph(source.name, look);
  Must(watch.status());
  if (engine.GetGraph(source.name)->state == GraphState::kPreparing) ended.get_future().wait();
  watch->reset();
}

std::string NameOf(const TuningCandidate& candidate) {
  std::string name = candidate.setting.kernel;
  for (const NamedParameter& parameter : candidate.parameters)
    if (parameter.value != 0) name += " " + parameter.name + "=" + std::to_string(parameter.value);
  return name;
}

// What the tuner found of a setting; null where it did not know it.
const TuningCandidate* CandidateOf(const TuningRecord& record, const KernelSetting& setting) {
  for (const TuningCandidate& candidate : record.candidates)
    if (candidate.setting == setting) return &candidate;
  return nullptr;
}

// Takes those out of `order` that are far from the fastest, so that there is time to tell the others apart.
void DropFar(const std::vector<std::vector<double>>& times, std::vector<int64_t>* order) {
  constexpr double kFar = 1.5;
  double least = std::numeric_limits<double>::infinity();
  for (const int64_t c : *order) least = std::min(least, Median(times[c]));
  std::erase_if(*order, [&](int64_t c) { return Median(times[c]) > kFar * least; });
}

// Seconds of every candidate by round, of those far behind in the first rounds only: single runs, the sources written
// anew before each, as the tuner does and as a plan's step before would; in an order that is shuffled for each pair of
// rounds, of which the second runs backwards.
std::vector<std::vector<double>> TimeAll(const Trial& trial, DeviceContext& context) {
  std::vector<std::vector<double>> times(trial.num_to_run());
  std::vector<int64_t> order(trial.num_to_run());
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(1);
  const auto begin = std::chrono::steady_clock::now();
  const auto spent = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  for (int round = 0; round <= absl::GetFlag(FLAGS_rounds); ++round) {
    if (round > kFewestRounds && spent() > absl::GetFlag(FLAGS_seconds)) break;
    if (round == kFewestRounds) DropFar(times, &order);
    round % 2 == 0 ? std::shuffle(order.begin(), order.end(), random) : std::reverse(order.begin(), order.end());
    for (const int64_t c : order) {
      trial.Renew(round, context);
      const double from = spent();
      Must(trial.Run(c, round, context));
      if (round > 0) times[c].push_back(spent() - from);  // the first one warms up
    }
  }
  return times;
}

struct Loss {
  double factor = 1.0;  // time of the choice / time of the best
  int64_t best = 0;
};

// Median over the rounds of the time of `a` / the time of `b`, in all of them or in a half. Pairs of rounds, which run
// in opposite orders, belong to the halves in turn.
double RatioOf(const std::vector<std::vector<double>>& times, int64_t a, int64_t b,
               std::optional<size_t> half = std::nullopt) {
  std::vector<double> ratios;
  for (size_t round = 0; round < std::min(times[a].size(), times[b].size()); ++round) {
    if (round / 2 % 2 == half.value_or(round / 2 % 2)) ratios.push_back(times[a][round] / times[b][round]);
  }
  return Median(ratios);
}

// The best is found in one half of the rounds and compared with the choice in the other half, and the other way round;
// told is the geometric mean. In the same rounds the most favoured by chance of a dozen equals would look better than
// they are.
Loss LossOf(const std::vector<std::vector<double>>& times, int64_t choice) {
  Loss loss = {1.0, choice};
  for (size_t half = 0; half < 2; ++half) {
    int64_t best = choice;
    double most = 1.0;
    for (size_t c = 0; c < times.size(); ++c) {
      const double ratio = RatioOf(times, choice, static_cast<int64_t>(c), half);
      if (ratio > most) most = ratio, best = static_cast<int64_t>(c);
    }
    loss.factor *= std::sqrt(RatioOf(times, choice, best, 1 - half));
    if (best != choice) loss.best = best;
  }
  return loss;
}

class Bench {
 public:
  Bench() : device_(MakeCpuDevice(absl::GetFlag(FLAGS_threads))), context_(device_->CreateContext()) {
    EngineOptions options;
    options.device = "cpu";
    options.num_threads = absl::GetFlag(FLAGS_threads);
    options.tuning_budget = Nanoseconds::zero();
    auto engine = Engine::Create(options);
    Must(engine.status());
    engine_ = *std::move(engine);
    RegisterCpuKernels(registry_);
  }

  void Run(const std::string& path) {
    const Graph graph = Read(path);
    Put(*engine_, graph.source);
    for (const std::string& kind : absl::GetFlag(FLAGS_kinds))
      for (const std::string& width : absl::GetFlag(FLAGS_widths)) Cell(graph, kind, std::stoll(width));
  }

  void Summarise() {
    int64_t within = 0;
    double worst = 1.0;
    for (const auto& cell : cells_) {
      const double loss = cell["loss"];
      within += loss <= 1.05;
      worst = std::max(worst, loss);
    }
    const double share = cells_.empty() ? 0.0 : static_cast<double>(within) / static_cast<double>(cells_.size());
    std::printf("%zu cells, %.1f %% within 5 %% of the best, worst %.1f %%\n", cells_.size(), 100 * share,
                100 * (worst - 1.0));
    const std::string file = absl::GetFlag(FLAGS_json);
    if (file.empty()) return;
    const nlohmann::json document = {{"device", device_->description()},
                                     {"budget_ms", absl::GetFlag(FLAGS_budget_ms)},
                                     {"cells", cells_},
                                     {"share_within_5_percent", share},
                                     {"worst_loss", worst}};
    std::ofstream(file) << document.dump(2) << "\n";
  }

 private:
  void Cell(const Graph& graph, const std::string& kind, int64_t width) {
    TuneGraphRequest request;
    request.graph = "graph";
    request.kinds = {kind};
    request.widths = {width};
    request.weights = {"none"};
    request.budget = std::chrono::milliseconds(absl::GetFlag(FLAGS_budget_ms));
    const auto report = engine_->TuneGraph(request);
    Must(report.status());
    const TuningRecord& record = report->records.at(0);

    TrialInput input;
    input.key = record.key;
    input.adjacency = graph.csr.view();
    input.device = device_.get();
    input.registry = &registry_;
    input.shape.rows = graph.csr.num_rows;
    input.shape.cols = graph.csr.num_cols;
    input.shape.edges = graph.csr.nnz();
    input.shape.num_threads = context_->thread_pool()->num_threads();
    input.prune_factor = 7.0;  // all but the plain reference kernel
    input.max_candidates = 1000;
    auto trial = Trial::Make(input);
    Must(trial.status());
    const auto& candidates = (*trial)->candidates();
    int64_t choice = 0;
    for (int64_t c = 0; c < (*trial)->num_to_run(); ++c)
      if (record.choice() != nullptr && candidates[c].setting == record.choice()->setting) choice = c;
    const auto times = TimeAll(**trial, *context_);
    Tell(graph, record, candidates, times, choice);
  }

  void Tell(const Graph& graph, const TuningRecord& record, const std::vector<TuningCandidate>& candidates,
            const std::vector<std::vector<double>>& times, int64_t choice) {
    const Loss loss = LossOf(times, choice);
    const Loss untuned = LossOf(times, 0);
    const std::string name = graph.path.substr(graph.path.find_last_of('/') + 1);
    std::printf("%-22s %-4s %4lld  %9.1f us  loss %5.1f %% (untuned %5.1f %%)  used %.2f s  %s | best: %s | %s\n",
                name.c_str(), record.key.kind.c_str(), static_cast<long long>(record.key.width),
                1e6 * Median(times[choice]), 100 * (loss.factor - 1), 100 * (untuned.factor - 1), record.used_seconds,
                NameOf(candidates[choice]).c_str(), NameOf(candidates[loss.best]).c_str(), record.note.c_str());
    std::fflush(stdout);
    nlohmann::json all = nlohmann::json::array();
    for (size_t c = 0; c < times.size(); ++c) {
      const TuningCandidate* const tuned = CandidateOf(record, candidates[c].setting);
      all.push_back({{"candidate", NameOf(candidates[c])},
                     {"median_us", 1e6 * Median(times[c])},
                     {"ratio", RatioOf(times, static_cast<int64_t>(c), 0)},
                     {"tuner_ratio", tuned != nullptr ? tuned->ratio : 0.0},
                     {"tuner_samples", tuned != nullptr ? tuned->samples : 0},
                     {"tuner_dropped", tuned != nullptr ? tuned->dropped_samples : 0},
                     {"predicted_us", 1e6 * candidates[c].predicted_seconds}});
    }
    cells_.push_back({{"graph", name},
                      {"kind", record.key.kind},
                      {"width", record.key.width},
                      {"choice", NameOf(candidates[choice])},
                      {"best", NameOf(candidates[loss.best])},
                      {"loss", loss.factor},
                      {"loss_untuned", untuned.factor},
                      {"rounds", times[choice].size()},
                      {"used_seconds", record.used_seconds},
                      {"note", record.note},
                      {"candidates", all}});
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<DeviceContext> context_;
  std::unique_ptr<Engine> engine_;
  KernelRegistry registry_;
  nlohmann::json cells_ = nlohmann::json::array();
};

int Main(int argc, char** argv) {
  const std::vector<char*> rest = absl::ParseCommandLine(argc, argv);
  if (rest.size() < 2) return std::fprintf(stderr, "usage: vicinal_bench_tuner GRAPH.npz... [--flags]\n"), 2;
  Bench bench;
  for (size_t i = 1; i < rest.size(); ++i) bench.Run(rest[i]);
  bench.Summarise();
  return 0;
}

}  // namespace
}  // namespace vicinal::bench

int main(int argc, char** argv) { return vicinal::bench::Main(argc, argv); }
