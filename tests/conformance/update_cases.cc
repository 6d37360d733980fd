// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "tests/conformance/cases.h"
#include "tests/conformance/graphs.h"

namespace vicinal::conformance {
namespace {

HostEpilogue FullEpilogue(int64_t rows, int64_t cols) {
  HostEpilogue epilogue;
  epilogue.bias = RandomVector(cols, 31);
  epilogue.residual = RandomMatrix(rows, cols, 32);
  epilogue.residual_scale = -0.75f;
  epilogue.activation = {ActivationKind::kLeakyRelu, 0.3f};
  return epilogue;
}

// What GCN and SAGE have their products do.
HostEpilogue FactoredEpilogue(int64_t rows, int64_t cols) {
  HostEpilogue epilogue;
  epilogue.scale = 0.5f;
  epilogue.row_scale = RandomVector(rows, 37);
  epilogue.residual = RandomMatrix(rows, cols, 38);
  epilogue.activation.kind = ActivationKind::kRelu;
  return epilogue;
}

HostMatrix RunDense(Machine& machine, Report& report, const RegisteredKernel<DenseUpdateKernel>& kernel,
                    const HostMatrix& src, const HostMatrix& weight, const MatrixLayout& layout,
                    const HostEpilogue& epilogue) {
  const DeviceMatrix device_src(*machine.device, src, layout, 1e30f);
  const DeviceArray<char> packed = Packed(machine, kernel.kernel(), weight);
  DenseUpdateArgs args;
  args.problem = {src.rows, src.cols, weight.rows};
  args.src = device_src.view();
  args.weight = packed.data();
  return RunOnce(machine, report, kernel, args, epilogue, layout, src.rows, weight.rows);
}

// On the CPU, whose plain kernel needs seconds for what a GPU has in no time.
bool IsTooLong(const Machine& machine, int64_t multiplications) {
  return machine.is_cpu() && multiplications > 20'000'000;
}

HostMatrix FirstRows(const HostMatrix& matrix, int64_t rows) {
  return {rows, matrix.cols, std::vector<float>(matrix.values.begin(), matrix.values.begin() + rows * matrix.cols)};
}

// Rows that begin at multiples of 16 bytes, as a plan's do.
MatrixLayout InFours(int64_t cols) { return {0, (4 - cols % 4) % 4}; }

// Rows that lie otherwise are read otherwise: in fours as a plan's, in twos and one by one.
std::vector<MatrixLayout> Layouts(int64_t cols) { return {InFours(cols), {0, 0}, {1, 1}}; }

// Calls visit(kernel, weight) for each number of outputs and each kernel that takes such a product of `src`.
template <class Visit>
void ForEachProduct(Machine& machine, const HostMatrix& src, const Visit& visit) {
  for (int64_t out_width : {7, 16, 32, 64, 130}) {
    const HostMatrix weight = RandomMatrix(out_width, src.cols, 36);
    for (const auto& kernel : machine.registry.dense_update.kernels()) {
      if (kernel->kernel().WhyUnsupported({src.rows, src.cols, out_width}).empty()) visit(*kernel, weight);
    }
  }
}

std::string NameOf(const RegisteredKernel<DenseUpdateKernel>& kernel, int64_t rows, const HostMatrix& weight) {
  return std::string(kernel.kernel().name()) + " " + std::to_string(rows) + " rows to " + std::to_string(weight.rows);
}

// However many rows there are, and so whatever kernel is chosen for them, a row's bits are the same.
void RowCountCases(Machine& machine, Report& report, const HostMatrix& src, const std::vector<int64_t>& counts) {
  ForEachProduct(machine, src, [&](const auto& kernel, const HostMatrix& weight) {
    if (!report.IsMine()) return;
    const HostMatrix all = RunDense(machine, report, kernel, src, weight, {0, 0}, HostEpilogue());
    for (int64_t rows : counts) {
      for (const MatrixLayout& layout : Layouts(src.cols)) {
        report.CheckSame("dense_update any number of rows", NameOf(kernel, rows, weight),
                         RunDense(machine, report, kernel, FirstRows(src, rows), weight, layout, HostEpilogue()),
                         FirstRows(all, rows));
      }
    }
  });
}

// The same in brief: each number of rows by itself and in one layout, for all of them are what takes longest.
void BriefRowCountCases(Machine& machine, Report& report, const HostMatrix& src, const std::vector<int64_t>& counts) {
  size_t turn = 0;
  ForEachProduct(machine, src, [&](const auto& kernel, const HostMatrix& weight) {
    for (int64_t rows : counts) {
      const MatrixLayout layout = Layouts(src.cols)[turn++ % 3];
      if (!report.IsMine()) continue;
      const HostMatrix first = FirstRows(src, rows);
      report.CheckTwice(
          "dense_update " + std::string(kernel.kernel().name()), NameOf(kernel, rows, weight),
          [&] { return RunDense(machine, report, kernel, first, weight, layout, HostEpilogue()); },
          Product(first, weight));
    }
  });
}

void DenseCases(Machine& machine, Report& report) {
  // Few inputs; inputs split, in one round and in several; tiles of 16, 32 and 64 columns.
  const int64_t shapes[][3] = {{1, 1, 1},        {5, 3, 2},        {127, 16, 16},    {129, 33, 17},    {300, 602, 41},
                               {64, 64, 64},     {77, 500, 65},    {2708, 1433, 16}, {10, 4000, 7},    {5001, 129, 13},
                               {5001, 65, 29},   {5001, 100, 64},  {9000, 100, 130}, {40000, 66, 37},  {2200, 5120, 3},
                               {9, 6000, 70},    {2700, 2700, 9},  {1300, 5100, 35}, {2708, 193, 24},  {9001, 602, 16},
                               {3327, 1301, 16}, {4001, 603, 13},  {8001, 194, 12},  {2708, 1433, 32}, {3327, 2000, 30},
                               {6000, 195, 20},  {3327, 3703, 16}, {2500, 1601, 8},  {700, 1025, 31}};
  for (const auto& kernel : machine.registry.dense_update.kernels()) {
    const std::string name(kernel->kernel().name());
    for (const auto& shape : shapes) {
      if (IsTooLong(machine, shape[0] * shape[1] * shape[2])) continue;
      if (!report.IsMine() || !kernel->kernel().WhyUnsupported({shape[0], shape[1], shape[2]}).empty()) continue;
      const HostMatrix src = RandomMatrix(shape[0], shape[1], 33), weight = RandomMatrix(shape[2], shape[1], 34);
      const std::vector<double> product = Product(src, weight);
      for (const MatrixLayout& layout : {InFours(shape[1]), MatrixLayout{1, 3}}) {
        for (const HostEpilogue& epilogue :
             {HostEpilogue(), FullEpilogue(shape[0], shape[2]), FactoredEpilogue(shape[0], shape[2])}) {
          const std::string what = name + " " + std::to_string(shape[0]) + " x " + std::to_string(shape[1]) + " x " +
                                   std::to_string(shape[2]);
          const auto run = [&] { return RunDense(machine, report, *kernel, src, weight, layout, epilogue); };
          const HostMatrix got =
              report.CheckTwice("dense_update " + name, what, run, WithEpilogue(product, shape[2], epilogue));
          if (!epilogue.residual.values.empty()) continue;
          // The last rows alone give the same bits, whatever tile is chosen for so few.
          const int64_t few = std::min<int64_t>(3, src.rows);
          const auto tail = [few](const HostMatrix& m) {
            return HostMatrix{few, m.cols, std::vector<float>(m.values.end() - few * m.cols, m.values.end())};
          };
          report.CheckSame("dense_update few rows", what,
                           RunDense(machine, report, *kernel, tail(src), weight, layout, epilogue), tail(got));
        }
      }
    }
  }
}

// Sparse features: distinct columns per row, as the engine's validation guarantees.
HostGraph SparseFeatures(int64_t rows, int64_t cols, int64_t most, uint64_t seed) {
  HostGraph features;
  features.name = std::to_string(rows) + " x " + std::to_string(cols);
  features.rows = rows;
  features.cols = cols;
  features.row_ptr = {0};
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t count = std::min<int64_t>(cols, row % (most + 1));
    for (int64_t i = 0; i < count; ++i) features.col.push_back(static_cast<int32_t>(i * cols / count));
    features.row_ptr.push_back(features.edges());
  }
  features.value = RandomVector(features.edges(), seed);
  return features;
}

void SparseCases(Machine& machine, Report& report) {
  for (const auto& kernel : machine.registry.sparse_update.kernels()) {
    const std::string name(kernel->kernel().name());
    for (const auto& shape : {std::pair<int64_t, int64_t>{37, 50}, {500, 1433}, {700, 5000}}) {
      const HostGraph features = SparseFeatures(shape.first, shape.second, shape.second > 4000 ? 690 : 40, 41);
      const DeviceGraph device_features(*machine.device, features);
      for (int64_t width : {1, 7, 16, 33, 64, 200}) {
        if (!report.IsMine()) continue;
        const HostMatrix weight = RandomMatrix(width, shape.second, 42);
        const DeviceArray<char> packed = Packed(machine, kernel->kernel(), weight);
        for (bool weighted : {false, true}) {
          const HostEpilogue epilogue = weighted ? FullEpilogue(shape.first, width) : HostEpilogue();
          SparseUpdateArgs args;
          args.problem = {shape.first, shape.second, width, features.edges()};
          if (!kernel->kernel().WhyUnsupported(args.problem).empty()) continue;
          args.src = device_features.view(weighted);
          args.weight = packed.data();
          const auto run = [&] {
            return RunOnce(machine, report, *kernel, args, epilogue, {1, 2}, shape.first, width);
          };
          const HostMatrix got =
              report.CheckTwice("sparse_update " + name, features.name + " to " + std::to_string(width), run,
                                WithEpilogue(Product(Dense(features, weighted), weight), width, epilogue));
          if (weighted) continue;
          // The last rows alone give the same bits.
          constexpr int64_t kFew = 5;
          args.problem.rows = args.src.rows = kFew;
          args.src.row_ptr += shape.first - kFew;
          args.problem.nnz = args.src.nnz = features.edges() - features.row_ptr[shape.first - kFew];
          const HostMatrix few = RunOnce(machine, report, *kernel, args, epilogue, {1, 2}, kFew, width);
          report.CheckSame("sparse_update few rows", name + " to " + std::to_string(width), few,
                           {kFew, width, std::vector<float>(got.values.end() - kFew * width, got.values.end())});
        }
      }
    }
  }
}

void SparseAggregateCases(Machine& machine, Report& report, const HostGraph& graph) {
  const HostGraph features = SparseFeatures(graph.cols, 90, 25, 51);
  const DeviceGraph device_features(*machine.device, features), device_graph(*machine.device, graph);
  for (const auto& kernel : machine.registry.sparse_aggregate_update.kernels()) {
    const std::string name(kernel->kernel().name());
    for (int64_t width : {7, 40}) {
      if (!report.IsMine()) continue;
      const HostMatrix weight = RandomMatrix(width, features.cols, 52);
      const DeviceArray<char> packed = Packed(machine, kernel->kernel(), weight);
      for (Reduce reduce : {Reduce::kSum, Reduce::kMean, Reduce::kMax}) {
        for (bool weighted : {false, true}) {
          const float self_scale = graph.rows == graph.cols && weighted ? 1.5f : 0.0f;
          const std::vector<double> reduced = Aggregate(graph, weighted, reduce, Dense(features, weighted), self_scale);
          std::vector<double> want(graph.rows * width, 0.0);
          for (int64_t row = 0; row < graph.rows; ++row) {
            for (int64_t h = 0; h < width; ++h) {
              for (int64_t f = 0; f < features.cols; ++f) {
                want[row * width + h] += reduced[row * features.cols + f] * weight.at(h, f);
              }
            }
          }
          const HostEpilogue epilogue = weighted ? FullEpilogue(graph.rows, width) : HostEpilogue();
          SparseAggregateUpdateArgs args;
          args.problem = {reduce, weighted, graph.rows, graph.edges(), features.cols, width, features.edges()};
          args.adjacency = device_graph.view(weighted);
          args.src = device_features.view(weighted);
          args.self_scale = self_scale;
          args.weight = packed.data();
          const auto run = [&] { return RunOnce(machine, report, *kernel, args, epilogue, {0, 1}, graph.rows, width); };
          report.CheckTwice("sparse_aggregate_update " + name, graph.name + ", " + std::string(ToString(reduce)), run,
                            WithEpilogue(want, width, epilogue));
        }
      }
    }
  }
}

}  // namespace

void RunUpdateCases(Machine& machine, Report& report) {
  DenseCases(machine, report);
  SparseCases(machine, report);
  for (const HostGraph& graph : ZooFor(machine, report)) {
    if (!HasHub(graph)) SparseAggregateCases(machine, report, graph);
  }
  if (machine.is_cpu()) {
    // Around the numbers of rows that the CPU's kernels take at once, and that its threads share.
    RowCountCases(machine, report, RandomMatrix(600, 602, 35), {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 100, 255, 511});
    return;
  }
  const auto row_counts = report.brief() ? BriefRowCountCases : RowCountCases;
  row_counts(machine, report, RandomMatrix(40'000, 602, 35),
             {1, 7, 100, 2'112, 2'113, 3'168, 3'169, 4'000, 6'336, 6'337, 8'448, 8'449, 19'800, 19'801});
  row_counts(machine, report, RandomMatrix(140'000, 66, 35), {1, 5'000, 40'000});
  row_counts(machine, report, RandomMatrix(7'000, 2'102, 35), {1, 100, 1'000, 2'112, 2'113, 3'169, 4'225, 6'336});
}

}  // namespace vicinal::conformance
