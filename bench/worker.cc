// SPDX-License-Identifier: Apache-2.0
// Our side of the comparison with peers (bench/compare_peers.py): a program that prepares, runs and times on command,
// so that its samples and the peers' alternate within one run. It reads one JSON object a line from standard input and
// answers each with one line: {"ok": true, ...} or {"ok": false, "error": "..."}. Between commands it sleeps.
//   vicinal_bench_worker THREADS [DEVICE]      DEVICE: cpu (if left out), cuda:0
//
//   {"op": "hello"}                                            -> device, instruction_set, threads
//   {"op": "floors", "working_sets": [bytes, ...]}             -> copy, read: [bytes per second, ...]
//   {"op": "graph", "file", "nodes", "features", "order"}      -> order, order_reason, prepare_seconds,
//                                                               stages: seconds of each stage
//   {"op": "binary_graph", "file", "features", "order"}        the same
//   {"op": "aggregate", "reduce", "weighted", "width", "kernel", "config": [its parameters], "result"}
//                                                              prepares a cell, runs it once and writes its
//   {"op": "scores", "width", "config": [its parameters], "result"}
//   {"op": "forward", "architecture", "weights", "tune", "kernels", "result"}   result, raw float32, to the file
//                                                              `result`; kernels: as ExecutionOptions.kernels
//   {"op": "time", "budget_ms", "most"}                        -> us, processor_us: [microseconds of a run, ...],
//   elapsed and of the process's processor time, which other programs disturb less; kernels; on a GPU queued, too: us
//   of runs in batches of up to 100 that are waited for once
//   {"op": "peak", "architecture", "weights"}                  -> peak_bytes: how much more memory planning and one run
//   take than there was before, in a new process; scratch_bytes of the plan
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "bench/measure.h"
#include "bench/read_speed.h"
#include "bench/worker_tasks.h"
#include "engine/base/error.h"

namespace vicinal::bench {
namespace {

using nlohmann::json;
using SteadyClock = std::chrono::steady_clock;

double SecondsSince(SteadyClock::time_point begin) {
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

double ProcessorSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

class Worker {
 public:
  explicit Worker(std::unique_ptr<Bench> bench) : owned_(std::move(bench)), bench_(*owned_) {}

  json Answer(const std::string& line) {
    const json request = json::parse(line, nullptr, false);
    if (request.is_discarded()) return {{"ok", false}, {"error", "not JSON"}};
    StatusOr<json> answer = Do(request);
    if (!answer.ok()) return {{"ok", false}, {"error", answer.status().ToString()}};
    (*answer)["ok"] = true;
    return *std::move(answer);
  }

 private:
  StatusOr<json> Do(const json& request) {
    const std::string op = request.value("op", "");
    if (op == "hello") return Hello();
    if (op == "floors") return Floors(request);
    if (op == "graph" || op == "binary_graph") return Graph(request);
    if (op == "aggregate") return Aggregate(request);
    if (op == "scores") return Scores(request);
    if (op == "forward") return Forward(request);
    if (op == "time") return Time(request);
    if (op == "peak") return Peak(request);
    return InvalidArgument("UNKNOWN_OP", "op", absl::StrCat("there is no op '", op, "'"));
  }

  json Hello() const {
    return {{"device", bench_.device->description()},
            {"instruction_set", CpuInstructionSet()},
            {"threads", bench_.threads}};
  }

  StatusOr<json> Floors(const json& request) {
    if (!bench_.on_cpu()) return FailedPrecondition("NOT_ON_THIS_DEVICE", "floors are those of the CPU");
    json read = json::array();
    for (const json& bytes : request.at("working_sets")) {
      read.push_back(ReadBytesPerSecond(*bench_.context->thread_pool(), bytes.get<size_t>(), 30));
    }
    return json{{"copy", CopyBytesPerSecond(bench_.threads, 200)}, {"read", read}};
  }

  StatusOr<json> Graph(const json& request) {
    task_ = nullptr;
    graph_ = {};
    const auto begin = SteadyClock::now();
    const std::string file = request.value("file", ""), order = request.value("order", "auto");
    const int64_t features = request.value("features", int64_t{0});
    if (request.value("op", "") == "binary_graph") {
      VICINAL_ASSIGN_OR_RETURN(graph_, LoadBinaryGraph(bench_, file, features, order));
    } else {
      VICINAL_ASSIGN_OR_RETURN(graph_, LoadGraph(bench_, file, request.value("nodes", int64_t{0}), features, order));
    }
    json stages;
    for (const StageTime& stage : graph_.graph->parts().stages) stages[stage.stage] = stage.seconds;
    return json{{"order", std::string(ToString(graph_.graph->parts().order))},
                {"order_reason", graph_.graph->parts().order_reason},
                {"prepare_seconds", SecondsSince(begin)},
                {"stages", stages}};
  }

  StatusOr<json> Aggregate(const json& request) {
    if (graph_.graph == nullptr) return FailedPrecondition("NO_GRAPH", "send op graph first");
    if (!bench_.on_cpu()) return FailedPrecondition("NOT_ON_THIS_DEVICE", "aggregations are run on the CPU only");
    AggregateCell cell;
    const std::string reduce = request.value("reduce", "");
    cell.reduce = reduce == "max" ? Reduce::kMax : reduce == "mean" ? Reduce::kMean : Reduce::kSum;
    cell.weighted = request.value("weighted", false);
    cell.width = request.value("width", int64_t{1});
    cell.kernel = request.value("kernel", "");
    if (request.contains("config")) cell.config = ConfigOf(request);
    task_ = nullptr;  // before the next one takes memory
    VICINAL_ASSIGN_OR_RETURN(task_, MakeAggregateTask(bench_, graph_.graph, cell));
    return RunOnce(request);
  }

  static KernelConfig ConfigOf(const json& request) {
    KernelConfig config;
    const json values = request.value("config", json::array());
    for (size_t i = 0; i < std::min(values.size(), config.values.size()); ++i) {
      config.values[i] = values[i].get<int32_t>();
    }
    return config;
  }

  StatusOr<json> Scores(const json& request) {
    if (graph_.graph == nullptr) return FailedPrecondition("NO_GRAPH", "send op graph first");
    if (!bench_.on_cpu()) return FailedPrecondition("NOT_ON_THIS_DEVICE", "scores of edges are run on the CPU only");
    task_ = nullptr;
    const ScoresCell cell = {request.value("width", int64_t{1}), ConfigOf(request)};
    VICINAL_ASSIGN_OR_RETURN(task_, MakeScoresTask(bench_, graph_.graph, cell));
    return RunOnce(request);
  }

  StatusOr<json> Forward(const json& request) {
    if (graph_.features == nullptr) return FailedPrecondition("NO_FEATURES", "send op graph with features first");
    task_ = nullptr;
    const ForwardCell cell = {request.value("architecture", ""), request.value("weights", ""),
                              request.value("tune", false), request.value("kernels", ForcedKernels())};
    VICINAL_ASSIGN_OR_RETURN(task_, MakeForwardTask(bench_, graph_, cell));
    return RunOnce(request);
  }

  StatusOr<json> RunOnce(const json& request) {
    VICINAL_RETURN_IF_ERROR(task_->Run());
    VICINAL_ASSIGN_OR_RETURN(const std::vector<float> result, task_->Result());
    std::ofstream file(request.value("result", ""), std::ios::binary);
    file.write(reinterpret_cast<const char*>(result.data()),
               static_cast<std::streamsize>(result.size() * sizeof(float)));
    if (!file.flush()) return InvalidArgument("FILE_MISSING", "result", "cannot write the result");
    return json{{"kernels", task_->Kernels()}};
  }

  // One run that does not count, then samples until the budget is used (at least one, at most `most`). A short task is
  // repeated within a sample.
  StatusOr<json> Time(const json& request) {
    if (task_ == nullptr) return FailedPrecondition("NO_TASK", "send op aggregate, scores or forward first");
    const double budget = request.value("budget_ms", 10.0) * 1e-3;
    const auto most = request.value("most", size_t{100});
    auto begin = SteadyClock::now();
    VICINAL_RETURN_IF_ERROR(task_->Run());
    const double first = SecondsSince(begin);
    const int repeats = first < 50e-6 ? static_cast<int>(50e-6 / (first + 1e-7)) + 1 : 1;
    json us = json::array(), processor_us = json::array();
    for (double used = 0; us.empty() || (used < budget && us.size() < most);) {
      begin = SteadyClock::now();
      const double processor_begin = ProcessorSeconds();
      for (int r = 0; r < repeats; ++r) VICINAL_RETURN_IF_ERROR(task_->Run());
      const double seconds = SecondsSince(begin);
      used += seconds;
      us.push_back(seconds * 1e6 / repeats);
      processor_us.push_back((ProcessorSeconds() - processor_begin) * 1e6 / repeats);
    }
    json answer = {{"us", us}, {"processor_us", processor_us}, {"kernels", task_->Kernels()}};
    if (!bench_.on_cpu()) {
      VICINAL_ASSIGN_OR_RETURN(answer["queued"], Queued(budget, us.back().get<double>() * 1e-6));
    }
    return answer;
  }

  StatusOr<json> Peak(const json& request) {
    if (graph_.features == nullptr) return FailedPrecondition("NO_FEATURES", "send op graph with features first");
    ForgetPeakMemory();
    const int64_t before = ResidentBytes();
    VICINAL_ASSIGN_OR_RETURN(
        task_,
        MakeForwardTask(bench_, graph_, {request.value("architecture", ""), request.value("weights", ""), false, {}}));
    VICINAL_RETURN_IF_ERROR(task_->Run());
    return json{{"peak_bytes", PeakMemoryBytes() - before}, {"scratch_bytes", task_->scratch_bytes()}};
  }

  // What a run takes where nobody waits for each: batches, as many as the budget allows, at least one.
  StatusOr<json> Queued(double budget, double seconds_of_one) {
    constexpr int kMax = 100;
    const int count = std::max(1, std::min(kMax, static_cast<int>(budget / (seconds_of_one + 1e-7))));
    json us = json::array();
    for (double used = 0; us.empty() || used < budget;) {
      const auto begin = SteadyClock::now();
      VICINAL_RETURN_IF_ERROR(task_->RunQueued(count));
      const double seconds = SecondsSince(begin);
      used += seconds;
      us.push_back(seconds * 1e6 / count);
    }
    return us;
  }

  const std::unique_ptr<Bench> owned_;
  Bench& bench_;
  PreparedUpload graph_;
  std::unique_ptr<Task> task_;
};

}  // namespace
}  // namespace vicinal::bench

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3 || std::atoi(argv[1]) < 1) {
    std::cerr << "usage: vicinal_bench_worker THREADS [DEVICE]\n";
    return 2;
  }
  auto bench = vicinal::bench::Bench::Open(std::atoi(argv[1]), argc == 3 ? argv[2] : "cpu");
  if (!bench.ok()) {
    std::cerr << bench.status().message() << "\n";
    return 1;
  }
  vicinal::bench::Worker worker(*std::move(bench));
  for (std::string line; std::getline(std::cin, line);) std::cout << worker.Answer(line).dump() << std::endl;
  return 0;
}
