// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/kernels/zoo.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "engine/base/check.h"
#include "hwy/highway.h"
#include "hwy/targets.h"

namespace vicinal::testing {
namespace {

// Between rows: a number that no kernel computes.
constexpr float kGapValue = -12345.678f;

// VICINAL_TEST_TARGET=AVX2 (SSE4, SCALAR) makes the kernels believe that the processor has nothing better.
void LimitInstructionSet() {
  const char* name = std::getenv("VICINAL_TEST_TARGET");
  if (name == nullptr) return;
  int64_t usable = 0;
  for (int64_t targets = hwy::SupportedTargets(); targets != 0; targets &= targets - 1) {
    const int64_t target = targets & -targets;
    // Better targets are lower bits: from the named one on, all stay.
    if (usable != 0 || hwy::TargetName(target) == std::string(name)) usable |= target;
  }
  VICINAL_CHECK(usable != 0);
  hwy::SetSupportedTargetsForTest(usable);
  hwy::GetChosenTarget().Update(usable);
}

}  // namespace

std::vector<float> RandomVector(int64_t size, uint64_t seed) {
  std::vector<float> values(size);
  Random r(seed);
  for (float& value : values) value = r.Float();
  return values;
}

std::vector<TestGraph> Zoo() {
  std::vector<TestGraph> zoo = {
      {"one_node", 1, 1, {}},
      {"one_loop", 1, 1, {{0, 0, 2.0f}}},
      {"no_edges", 7, 7, {}},
      {"no_nodes", 0, 0, {}},
      {"loops_and_duplicates", 4, 4, {{0, 0, 1}, {1, 0, 1}, {1, 0, 1}, {3, 3, 1}, {3, 3, 1}, {2, 1, 1}}},
      {"disconnected", 9, 9, {{0, 1, 1}, {1, 0, 1}, {4, 5, 1}, {5, 4, 1}, {8, 7, 1}}},
      {"directed_cycle", 5, 5, {{0, 1, 1}, {1, 2, 1}, {2, 3, 1}, {3, 4, 1}, {4, 0, 1}}}};
  TestGraph star_in{"star_in", 40, 40, {}}, star_out{"star_out", 40, 40, {}}, path{"path", 33, 33, {}};
  TestGraph hub{"hub_of_700", 12, 50, {}}, bipartite{"bipartite", 6, 21, {}}, complete{"complete", 9, 9, {}};
  TestGraph random{"random", 60, 60, {}};
  Random r(7);
  for (int32_t i = 1; i < 40; ++i) {
    star_in.edges.push_back({i, 0, 1});
    star_out.edges.push_back({0, i, 1});
    if (i < 33) path.edges.push_back({i - 1, i, 1});
  }
  for (int i = 0; i < 700; ++i) hub.edges.push_back({static_cast<int32_t>(r.Below(50)), 4, 1});
  for (int i = 0; i < 30; ++i)
    bipartite.edges.push_back({static_cast<int32_t>(r.Below(21)), static_cast<int32_t>(r.Below(6)), 1});
  for (int32_t i = 0; i < 81; ++i) complete.edges.push_back({i % 9, i / 9, 1});
  for (int i = 0; i < 400; ++i)
    random.edges.push_back({static_cast<int32_t>(r.Below(60)), static_cast<int32_t>(r.Below(60)), 1});
  for (TestGraph* graph : {&star_in, &star_out, &path, &hub, &bipartite, &complete, &random})
    zoo.push_back(std::move(*graph));
  for (TestGraph& graph : zoo) {
    for (Edge& edge : graph.edges) edge.weight = r.Float();
  }
  return zoo;
}

TestGraph LargeGraph(int64_t nodes, int64_t edges) {
  TestGraph graph{"large", nodes, nodes, {}};
  Random r(11);
  for (int64_t e = 0; e < edges; ++e) {
    // A tenth of the edges go to one node, the rest prefer low ids.
    const int64_t target = e % 10 == 0 ? nodes / 2 : r.Below(1 + r.Below(nodes));
    graph.edges.push_back({static_cast<int32_t>(r.Below(nodes)), static_cast<int32_t>(target), r.Float()});
  }
  return graph;
}

CsrView TestCsr::View(bool weighted) const {
  return {rows, cols, static_cast<int64_t>(col.size()), row_ptr.data(), col.data(), weighted ? value.data() : nullptr};
}

TestCsr ToCsr(const TestGraph& graph) {
  TestCsr csr;
  csr.rows = graph.targets;
  csr.cols = graph.sources;
  csr.row_ptr.assign(graph.targets + 1, 0);
  std::vector<Edge> sorted = graph.edges;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Edge& a, const Edge& b) {
    return a.target != b.target ? a.target < b.target : a.source < b.source;
  });
  for (const Edge& edge : sorted) {
    ++csr.row_ptr[edge.target + 1];
    csr.col.push_back(edge.source);
    csr.value.push_back(edge.weight);
  }
  for (int64_t i = 0; i < graph.targets; ++i) csr.row_ptr[i + 1] += csr.row_ptr[i];
  return csr;
}

TestCsr RandomSparse(int64_t rows, int64_t cols, int64_t per_row, uint64_t seed) {
  TestCsr csr;
  csr.rows = rows;
  csr.cols = cols;
  csr.row_ptr.push_back(0);
  Random r(seed);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t f = 0; f < cols && i % 5 != 4; ++f) {
      if (r.Below(cols) >= per_row) continue;
      csr.col.push_back(static_cast<int32_t>(f));
      csr.value.push_back(r.Float());
    }
    csr.row_ptr.push_back(static_cast<int64_t>(csr.col.size()));
  }
  return csr;
}

TestMatrix::TestMatrix(int64_t rows, int64_t cols, uint64_t seed, int64_t gap)
    : rows_(rows), cols_(cols), stride_(cols + gap), data_(kOffset + rows * (cols + gap) + kOffset, kGapValue) {
  Random r(seed);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t c = 0; c < cols; ++c) data_[kOffset + i * stride_ + c] = r.Float();
  }
}

MatrixView TestMatrix::view() { return {data_.data() + kOffset, rows_, cols_, stride_}; }
ConstMatrixView TestMatrix::view() const { return {data_.data() + kOffset, rows_, cols_, stride_}; }

void TestMatrix::Fill(float value) {
  for (int64_t i = 0; i < rows_; ++i) std::fill_n(data_.begin() + kOffset + i * stride_, cols_, value);
}

bool TestMatrix::GapsUntouched() const {
  for (size_t at = 0; at < data_.size(); ++at) {
    const int64_t inside = static_cast<int64_t>(at) - kOffset;
    const bool element = inside >= 0 && inside < rows_ * stride_ && inside % stride_ < cols_;
    if (!element && data_[at] != kGapValue) return false;
  }
  return true;
}

std::vector<float> TestMatrix::Values() const {
  std::vector<float> values;
  for (int64_t i = 0; i < rows_; ++i) {
    for (int64_t c = 0; c < cols_; ++c) values.push_back(at(i, c));
  }
  return values;
}

Machine::Machine() {
  LimitInstructionSet();
  RegisterCpuKernels(registry);
  for (int threads = 1; threads <= 3; ++threads) {
    devices[threads - 1] = MakeCpuDevice(threads);
    contexts[threads - 1] = devices[threads - 1]->CreateContext();
  }
}

Machine& TheMachine() {
  static Machine machine;
  return machine;
}

Buffer RubbishScratch(size_t bytes) {
  StatusOr<Buffer> buffer = TheMachine().devices[0]->Allocate(bytes);
  VICINAL_CHECK(buffer.ok());
  if (bytes > 0) std::memset(buffer->data(), 0xFF, bytes);
  return *std::move(buffer);
}

}  // namespace vicinal::testing
