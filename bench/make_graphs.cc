// SPDX-License-Identifier: Apache-2.0
// Makes the graphs that GPU benchmarks run on (bench/published_graphs.h) as files FOLDER/NAME.bin, and prints sizes and
// checksums.
//   vicinal_bench_graphs FOLDER NAME ...      without names: says which there are
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <string>
#include <thread>

#include "bench/published_graphs.h"

namespace vicinal::bench {
namespace {

int Fail(const Status& status) {
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}

int Make(const std::string& folder, const std::string& name, ThreadPool& pool) {
  const auto begin = std::chrono::steady_clock::now();
  const StatusOr<BinaryGraph> graph = MakePublishedGraph(name, pool);
  if (!graph.ok()) return Fail(graph.status());
  if (const Status written = WriteBinaryGraph(*graph, folder + "/" + name + ".bin"); !written.ok())
    return Fail(written);
  int32_t longest = 0;
  for (int64_t row = 0; row < graph->nodes; ++row) {
    longest = std::max(longest, graph->row_ptr[row + 1] - graph->row_ptr[row]);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%-16s %9" PRId64 " nodes %10" PRId64 " edges, in-degree at most %6d, FNV-1a %016" PRIx64 ", %.1f s\n",
              name.c_str(), graph->nodes, graph->edges(), longest, Checksum(*graph), seconds);
  std::fflush(stdout);
  return 0;
}

}  // namespace
}  // namespace vicinal::bench

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s FOLDER NAME ...\nnames:", argv[0]);
    for (const std::string& name : vicinal::bench::PublishedGraphNames()) std::fprintf(stderr, " %s", name.c_str());
    std::fprintf(stderr, "\n");
    return 2;
  }
  const unsigned cores = std::thread::hardware_concurrency();
  vicinal::ThreadPool pool(cores == 0 ? 1 : static_cast<int>(cores));
  for (int i = 2; i < argc; ++i) {
    if (const int status = vicinal::bench::Make(argv[1], argv[i], pool); status != 0) return status;
  }
  return 0;
}
