// SPDX-License-Identifier: Apache-2.0
// What preparing a graph takes, stage by stage: each order of each number of threads several times, medians, and the
// memory beside what was there before. The edges come shuffled, as an upload may bring them. A table, and JSON.
//   vicinal_bench_prepare NAME | FILE.bin [--edges=N] [--threads=1,16] [--orders=auto,community,...] [--rounds=N]
//     [--device=cuda:0] [--weighted] [--edge_features=A] [--steps] [--json=FILE]
// NAME is one of vicinal_bench_graphs, FILE.bin what that wrote. On a CPU `auto` does not measure, so that it takes the
// same order everywhere.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "bench/binary_graph.h"
#include "bench/counted_random.h"
#include "bench/measure.h"
#include "bench/program.h"
#include "bench/published_graphs.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/stats.h"
#include "engine/graph/parallel_csr.h"
#include "engine/kernels/open_device.h"
#include "engine/prepare/measure_orders.h"
#include "engine/prepare/measure_tuned_orders.h"
#include "engine/prepare/order_sample.h"
#include "engine/prepare/prepare.h"
#include "engine/profile/graph_profile.h"
#include "engine/profile/reuse.h"

ABSL_FLAG(int64_t, edges, 0, "Edges of the graph NAME; 0: as published.");
ABSL_FLAG(std::vector<std::string>, threads, {}, "Numbers of threads; empty: one per core.");
ABSL_FLAG(std::vector<std::string>, orders, std::vector<std::string>({"auto"}), "Orders to prepare in.");
ABSL_FLAG(int, rounds, 3, "Preparations of each order and number of threads.");
ABSL_FLAG(std::string, device, "cpu", "cpu or cuda:0.");
ABSL_FLAG(bool, weighted, false, "Whether edges have weights.");
ABSL_FLAG(int64_t, edge_features, 0, "Features of each edge; 0: none.");
ABSL_FLAG(bool, steps, false, "Time the steps of the stage renumber, too, each by itself.");
ABSL_FLAG(std::string, json, "", "File to write the results to; empty: none.");

namespace vicinal::bench {
namespace {

using Json = nlohmann::ordered_json;

// Sources, then targets, in an order that has nothing to do with the ids.
std::vector<int32_t> ShuffledEnds(const BinaryGraph& graph) {
  struct Ends {
    int32_t source, target;
  };
  std::vector<Ends> edges;
  edges.reserve(graph.edges());
  for (int64_t row = 0; row < graph.nodes; ++row) {
    for (int32_t e = graph.row_ptr[row]; e < graph.row_ptr[row + 1]; ++e) {
      edges.push_back({graph.col[e], static_cast<int32_t>(row)});
    }
  }
  CountedRandom random(11, 0);
  for (auto last = static_cast<uint32_t>(edges.size()); last > 1; --last)
    std::swap(edges[last - 1], edges[random.Below(last)]);
  std::vector<int32_t> ends(2 * edges.size());
  for (size_t e = 0; e < edges.size(); ++e) {
    ends[e] = edges[e].source;
    ends[edges.size() + e] = edges[e].target;
  }
  return ends;
}

HostTensor Tensor(DataType type, std::vector<int64_t> shape, const void* data, size_t bytes) {
  return {type, std::move(shape), std::string(static_cast<const char*>(data), bytes)};
}

class Bench {
 public:
  Bench(const BinaryGraph& graph, std::string device)
      : nodes_(graph.nodes), ends_(ShuffledEnds(graph)), device_(std::move(device)) {
    for (int64_t e = 0; absl::GetFlag(FLAGS_weighted) && e < edges(); ++e) {
      weights_.push_back(static_cast<float>(1 + e % 1000));
    }
    edge_attr_.resize(static_cast<size_t>(edges() * absl::GetFlag(FLAGS_edge_features)));
    for (size_t i = 0; i < edge_attr_.size(); ++i) edge_attr_[i] = static_cast<float>(i % 1000);
  }

  int64_t nodes() const { return nodes_; }
  int64_t edges() const { return static_cast<int64_t>(ends_.size() / 2); }

  // Milliseconds of what the stage renumber is made of, medians.
  Json Steps(int threads) {
    ThreadPool pool(threads);
    GraphSource source = Source("none");
    const EdgeList edges = Must(AssembleEdges(nodes_, source.edge_index.view(), std::nullopt, &pool));
    const Csr csr = BuildCsrByTarget(edges, &pool);
    ProfileOptions profile;
    profile.pool = &pool;
    std::map<std::string, std::vector<double>> seconds;
    for (int round = 0; round < absl::GetFlag(FLAGS_rounds); ++round) {
      const auto time = [&](const std::string& step, const auto& body) {
        const auto begin = std::chrono::steady_clock::now();
        body();
        seconds[step].push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
      };
      OrderComputer computer(csr, &pool);
      Permutation order = Permutation::Identity(nodes_);
      bool symmetric = false;
      time("symmetry", [&] { symmetric = IsPatternSymmetric(csr, &pool); });
      time("locality", [&] { (void)ProfileLocality(csr, profile); });
      time("degree", [&] { (void)Must(computer.Compute(OrderKind::kDegree)); });
      time("rcm_with_symmetry", [&] { (void)Must(computer.Compute(OrderKind::kRcm)); });
      time("community", [&] { order = Must(computer.Compute(OrderKind::kCommunity)); });
      time("reuse", [&] { (void)EstimateReuse(csr, order.old_of_new(), {}, kReuseSample, &pool); });
      time("sample", [&] { (void)SampleUnder(csr, order, kTunedMeasuredEdges, &pool); });
      time("renumber_csr", [&] { (void)RenumberCsr(csr, order.new_of_old(), &pool); });
    }
    Json row = {{"threads", threads}};
    for (const auto& [step, times] : seconds) row[step + "_ms"] = 1e3 * Median(times);
    return row;
  }

  Json Run(int threads, const std::string& order) {
    KernelRegistry registry;
    const OpenedDevice opened = Must(OpenDevice(device_, "", threads, registry, Logger::Null()));
    const std::unique_ptr<DeviceContext> context = opened.device->CreateContext();
    ThreadPool pool(threads);
    PrepareContext prepare;
    prepare.device = opened.device.get();
    prepare.clock = &Clock::Real();
    prepare.stats = &StatsSink::Null();
    prepare.choose = ChooseOptionsFor(registry, *context, Clock::Real(), &pool);
    if (opened.device->kind() == DeviceKind::kCpu) prepare.choose.measure = {};

    Json row = {{"order", order}, {"threads", threads}};
    std::map<std::string, std::vector<double>> seconds;
    std::vector<double> all, processor, peaks;
    for (int round = 0; round < absl::GetFlag(FLAGS_rounds); ++round) {
      const int64_t before = ResidentBytes();
      ForgetPeakMemory();
      GraphSource source = Source(order);
      const auto begin = std::chrono::steady_clock::now();
      const std::clock_t processor_begin = std::clock();
      const PreparedUpload upload = Must(PrepareGraph(std::move(source), 1, prepare));
      all.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
      processor.push_back(static_cast<double>(std::clock() - processor_begin) / CLOCKS_PER_SEC);
      peaks.push_back(static_cast<double>(PeakMemoryBytes() - before));
      const PreparedGraph::Parts& parts = upload.graph->parts();
      for (const StageTime& stage : parts.stages) seconds[stage.stage].push_back(stage.seconds);
      row["taken"] = std::string(ToString(parts.order));
      row["reason"] = parts.order_reason;
      row["modularity"] = parts.profile.communities.modularity;
      row["communities"] = parts.profile.communities.count;
    }
    for (const auto& [stage, times] : seconds) row[stage + "_ms"] = 1e3 * Median(times);
    row["all_ms"] = 1e3 * Median(all);
    row["processor_ms"] = 1e3 * Median(processor);
    row["peak_bytes"] = Median(peaks);
    row["rounds"] = all.size();
    return row;
  }

 private:
  GraphSource Source(const std::string& order) const {
    GraphSource source;
    source.name = "graph";
    source.node_count = nodes_;
    source.order = Must(ParseOrderKind(order));
    source.edge_index = Tensor(DataType::kInt32, {2, edges()}, ends_.data(), ends_.size() * sizeof(int32_t));
    if (!weights_.empty()) {
      source.edge_weight = Tensor(DataType::kFloat32, {edges()}, weights_.data(), weights_.size() * sizeof(float));
    }
    if (const int64_t width = absl::GetFlag(FLAGS_edge_features); width > 0) {
      source.edge_attr =
          Tensor(DataType::kFloat32, {edges(), width}, edge_attr_.data(), edge_attr_.size() * sizeof(float));
    }
    return source;
  }

  const int64_t nodes_;
  const std::vector<int32_t> ends_;
  const std::string device_;
  std::vector<float> weights_, edge_attr_;
};

void Print(const Json& row) {
  std::printf("%-10s %3d threads", row["order"].get<std::string>().c_str(), row["threads"].get<int>());
  for (const char* stage : {"assemble", "validate", "csr", "renumber", "profile", "publish", "all", "processor"}) {
    std::printf("  %s %.1f", stage, row[std::string(stage) + "_ms"].get<double>());
  }
  std::printf(" ms, %.2f GB, takes %s, modularity %.4f\n", row["peak_bytes"].get<double>() / 1e9,
              row["taken"].get<std::string>().c_str(), row["modularity"].get<double>());
  std::fflush(stdout);
}

unsigned Cores() { return std::max(1U, std::thread::hardware_concurrency()); }

BinaryGraph GraphOf(const std::string& name) {
  if (name.find('.') != std::string::npos) return Must(ReadBinaryGraph(name));
  ThreadPool pool(static_cast<int>(Cores()));
  return Must(MakePublishedGraph(name, pool, absl::GetFlag(FLAGS_edges)));
}

int Main(const std::string& name) {
  Bench bench(GraphOf(name), absl::GetFlag(FLAGS_device));
  std::printf("%s: %lld nodes, %lld edges\n", name.c_str(), static_cast<long long>(bench.nodes()),
              static_cast<long long>(bench.edges()));
  std::vector<std::string> threads = absl::GetFlag(FLAGS_threads);
  if (threads.empty()) threads = {absl::StrCat(Cores())};
  Json rows = Json::array(), steps = Json::array();
  for (const std::string& number : threads) {
    int count = 0;
    if (!absl::SimpleAtoi(number, &count) || count < 1) {
      std::fprintf(stderr, "--threads has '%s'; it must be numbers from 1, separated by commas\n", number.c_str());
      return 2;
    }
    for (const std::string& order : absl::GetFlag(FLAGS_orders)) {
      Json row = {{"graph", name}, {"nodes", bench.nodes()}, {"edges", bench.edges()}};
      row.update(bench.Run(count, order));
      Print(row);
      rows.push_back(std::move(row));
    }
    if (!absl::GetFlag(FLAGS_steps)) continue;
    steps.push_back(bench.Steps(count));
    std::printf("  steps %s\n", steps.back().dump().c_str());
  }
  const Json report = {{"device", absl::GetFlag(FLAGS_device)}, {"rows", rows}, {"steps", steps}};
  WriteResults(absl::GetFlag(FLAGS_json), report);
  return 0;
}

}  // namespace
}  // namespace vicinal::bench

int main(int argc, char** argv) {
  return vicinal::bench::RunWithWord(
      argc, argv, "vicinal_bench_prepare NAME | FILE.bin [--edges=N] [--threads=1,16] [--orders=auto]",
      vicinal::bench::Main);
}
