// SPDX-License-Identifier: Apache-2.0
// Aggregation and attention of the CUDA backend: every kernel in every configuration and the best algorithm of cuSPARSE
// in the same run, at all widths. CUDA events, medians of 30 samples after warm-up, three rotating sets of buffers.
// Each result is checked on sampled rows before its time counts. bench/README.md explains the columns.
//   vicinal_bench_cuda --backend=libvicinal_cuda.so --json=OUT.json GRAPH.bin[:WIDTHS] ...
//     [--widths=16,32] [--operations=sum,max] [--orders=none,rcm] [--kernels=binned_rows,tile*] [--defaults_only]
//     [--configurations=row_cache:cf=2,row_cache:uncached=1] [--budget_ms=60] [--stop_after=SECONDS]
//   vicinal_bench_cuda --summarise EARLIER.json ...  summary of earlier runs
// Exit status 3: the time was up before everything was measured.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "bench/binary_graph.h"
#include "bench/cuda/cell.h"
#include "bench/cuda/device_graph.h"
#include "bench/cuda/device_speed.h"
#include "bench/cuda/gpu.h"
#include "bench/cuda/operations.h"
#include "bench/cuda/report.h"
#include "bench/renumbered.h"

using Words = std::vector<std::string>;
ABSL_FLAG(std::string, backend, "libvicinal_cuda.so", "The CUDA backend.");
ABSL_FLAG(std::string, json, "", "File for the results; empty: none.");
ABSL_FLAG(Words, widths, Words({"16", "32", "64", "128", "256", "512"}), "Widths.");
ABSL_FLAG(Words, operations, {}, "Operations; empty: all.");
ABSL_FLAG(Words, orders, Words({"none"}), "Orders of nodes to renumber each graph by: none, rcm, community, ...");
ABSL_FLAG(Words, kernels, {}, "Kernels by name, or by its beginning and '*'; empty: all.");
ABSL_FLAG(Words, configurations, {}, "KERNEL:PARAMETER=VALUE:...: what to run of these kernels in place of all.");
ABSL_FLAG(bool, defaults_only, false, "Each kernel in its default configuration only.");
ABSL_FLAG(double, budget_ms, 60, "Device time of one timing; 5 runs at least, 30 at most.");
ABSL_FLAG(double, stop_after, 0, "Seconds after which no cell is begun; 0: never.");
ABSL_FLAG(bool, summarise, false, "The arguments are results of earlier runs.");

namespace vicinal::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr int kTimeIsUp = 3;

double SecondsSince(SteadyClock::time_point begin) {
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

// "folder/cora.bin" -> "cora".
std::string BaseName(const std::string& path) {
  const size_t begin = path.rfind('/') + 1, end = path.rfind(".bin");
  return path.substr(begin, end == std::string::npos ? end : end - begin);
}

std::vector<int64_t> ParseWidths(const Words& words) {
  std::vector<int64_t> widths;
  for (const std::string& word : words) {
    if (!absl::SimpleAtoi(word, &widths.emplace_back()) || widths.back() < 1) {
      std::fprintf(stderr, "'%s' is no width\n", word.c_str());
      std::exit(2);
    }
  }
  return widths;
}

class Run {
 public:
  Run() : gpu_(absl::GetFlag(FLAGS_backend)), speed_(MeasureSpeed(gpu_)) {
    cell_options_.budget_us = 1e3 * absl::GetFlag(FLAGS_budget_ms);
    cell_options_.choice.kernels = absl::GetFlag(FLAGS_kernels);
    cell_options_.choice.configurations =
        Must(ParseConfigurations(absl::GetFlag(FLAGS_configurations)), "--configurations");
    // Configurations that are named on the command line are measured in full, however slow they are.
    if (!cell_options_.choice.configurations.empty())
      cell_options_.early_stop_ratio = std::numeric_limits<double>::infinity();
    cell_options_.all_configurations = !absl::GetFlag(FLAGS_defaults_only);
    document_ = {{"device", gpu_.description()},
                 {"copy_bytes_per_second", speed_.copy},
                 {"l2_read_bytes_per_second", speed_.l2_read},
                 {"cells", Json::array()}};
    std::printf("%s\ncopies %.2f TB/s, reads the L2 at %.2f TB/s; * marks what a plan takes untuned\n",
                gpu_.description().c_str(), speed_.copy * 1e-12, speed_.l2_read * 1e-12);
  }

  // Measures all operations and widths on one graph, "FILE.bin" or "FILE.bin:WIDTHS", in each order. Returns false if
  // the time is up.
  bool Graph(const std::string& argument) {
    const size_t colon = argument.rfind(':');
    const std::string path = argument.substr(0, colon);
    const Words words = colon == std::string::npos ? absl::GetFlag(FLAGS_widths)
                                                   : Words(absl::StrSplit(argument.substr(colon + 1), ','));
    const std::vector<int64_t> widths = ParseWidths(words);
    const BinaryGraph graph = Must(ReadBinaryGraph(path), path);
    for (const std::string& order : absl::GetFlag(FLAGS_orders)) {
      if (!Cells(Renumber(path, graph, order), widths)) return false;
    }
    return true;
  }

  void Save() const {
    const std::string path = absl::GetFlag(FLAGS_json);
    if (path.empty()) return;
    std::ofstream file(path);
    if (!(file << document_.dump() << std::endl)) std::fprintf(stderr, "cannot write %s\n", path.c_str());
  }

  std::vector<Json> cells() const { return document_.at("cells"); }

 private:
  DeviceGraph Renumber(const std::string& path, const BinaryGraph& graph, const std::string& order) {
    const auto begin = SteadyClock::now();
    ThreadPool pool(std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
    RenumberedGraph renumbered = Must(Renumbered(graph, order, pool), order);
    if (order != "none") std::printf("%s in the order %s: %.1f s\n", path.c_str(), order.c_str(), SecondsSince(begin));
    return DeviceGraph(gpu_, BaseName(path), order, std::move(renumbered));
  }

  bool Cells(const DeviceGraph& graph, const std::vector<int64_t>& widths) {
    CellBench bench(gpu_, graph, speed_, cell_options_);
    for (const int64_t width : widths) {
      for (const Operation& operation : operations_) {
        if (width % operation.heads != 0) continue;
        if (SecondsSince(begin_) > stop_after_) return false;
        Json cell = bench.Run(operation, width);
        Complete(&cell);
        std::fputs(Lines(cell).c_str(), stdout);
        std::fflush(stdout);
        document_["cells"].push_back(std::move(cell));
      }
      Save();  // now, as a device error ends the program
    }
    return true;
  }

  const SteadyClock::time_point begin_ = SteadyClock::now();
  const double stop_after_ = absl::GetFlag(FLAGS_stop_after) > 0 ? absl::GetFlag(FLAGS_stop_after)
                                                                 : std::numeric_limits<double>::infinity();
  const std::vector<Operation> operations_ = Must(FindOperations(absl::GetFlag(FLAGS_operations)), "--operations");
  Gpu gpu_;
  const DeviceSpeed speed_;
  CellOptions cell_options_;
  Json document_;
};

int Summarise(const std::vector<std::string>& paths) {
  std::vector<Json> cells;
  for (const std::string& path : paths) {
    const Json document = Json::parse(std::ifstream(path), nullptr, false);
    if (document.is_discarded() || !document.contains("l2_read_bytes_per_second")) {
      std::fprintf(stderr, "%s holds no results\n", path.c_str());
      return 2;
    }
    for (const Json& cell : document.at("cells")) cells.push_back(cell);
  }
  std::fputs(Summary(cells).c_str(), stdout);
  return 0;
}

int Main(const std::vector<std::string>& paths) {
  if (absl::GetFlag(FLAGS_summarise)) return Summarise(paths);
  Run run;
  bool finished = true;
  for (const std::string& path : paths) finished = finished && run.Graph(path);
  run.Save();
  std::printf("\n%s%s", Summary(run.cells()).c_str(), finished ? "" : "\nThe time was up before all was measured.\n");
  return finished ? 0 : kTimeIsUp;
}

}  // namespace
}  // namespace vicinal::bench

int main(int argc, char** argv) {
  const std::vector<char*> words = absl::ParseCommandLine(argc, argv);
  if (words.size() < 2) {
    std::fprintf(stderr, "usage: %s --backend=libvicinal_cuda.so --json=OUT.json [options] GRAPH.bin ...\n", argv[0]);
    return 2;
  }
  return vicinal::bench::Main({words.begin() + 1, words.end()});
}
