// SPDX-License-Identifier: Apache-2.0
// One function per operation and kind of device. The CPU's figures were measured per kernel. The GPU's are bytes and
// operations divided by the overall speeds of its kernels (docs/performance.md).
#include "engine/plan/receptive_field/receptive_field_costs.h"

#include <algorithm>

namespace vicinal::internal {
namespace {

// --- the CPU ---

double Vectors(int64_t width) {
  const int64_t vectors = (width + 15) / 16;
  return static_cast<double>(vectors);
}
// Nanoseconds of a dense product per row, at 25 multiply-adds per nanosecond, with outputs in panels of 16.
double ProductNs(int64_t in, int64_t out) { return static_cast<double>(in) * Vectors(out) * 16 / 25; }

UnitCost CpuCost(const AggregateArgs& args, double) {
  const double vectors = Vectors(args.problem.width);
  return {5 + vectors + ProductNs(args.problem.width, args.problem.out_width), 0.7 + 0.5 * vectors};
}
UnitCost CpuCost(const AttentionArgs& args, double) {
  const double vectors = Vectors(args.problem.heads * args.problem.head_width);
  const double scores = args.problem.kind == AttentionKind::kGat ? 0.0 : 2 * vectors;
  const double heads = static_cast<double>(args.problem.heads);
  const double features = 0.5 * static_cast<double>(args.problem.edge_width) *
                          (args.problem.kind == AttentionKind::kGatV2 ? vectors : heads);
  return {10 + 2 * vectors, 4 + vectors + scores + features + 0.5 * heads};
}
UnitCost CpuCost(const MessageReduceArgs& args, double) {
  const double features = 0.5 * static_cast<double>(args.problem.edge_width);
  UnitCost cost = {5 + Vectors(args.problem.out_width()),
                   1 + 1.5 * Vectors(args.problem.source_width()) + features * Vectors(args.problem.term_width())};
  if (args.problem.softmax) cost.edge += 10 * Vectors(args.problem.out_width());
  if (args.problem.form == MessageForm::kOuter) cost.edge += 0.5 * Vectors(args.problem.out_width());
  if (args.problem.gaussians > 0) cost.edge += features * Vectors(args.problem.gaussians);
  int64_t in = args.problem.mixes() ? args.problem.edge_width : args.problem.width;
  for (int32_t layer = 0; layer < args.problem.num_layers; ++layer) {
    cost.edge += ProductNs(in, args.problem.out_widths[layer]);
    in = args.problem.out_widths[layer];
  }
  return cost;
}
UnitCost CpuCost(const ExpressionArgs& args, double) {
  const EdgeCode& code = *args.problem.code;
  const double work = 2 + code.operations / 16 + Vectors(code.gathered), store = 5 + Vectors(code.width);
  return code.over_edges ? UnitCost{store, work} : UnitCost{store + work, 0};
}
UnitCost CpuCost(const DenseUpdateArgs& args, double) {
  return {2 + ProductNs(args.problem.in_width, args.problem.out_width), 0};
}
UnitCost CpuCost(const SparseUpdateArgs& args, double entries) {
  return {5 + entries * (1 + 0.5 * Vectors(args.problem.out_width)), 0};
}
UnitCost CpuCost(const SparseAggregateUpdateArgs& args, double entries) {
  return {20 + entries * Vectors(args.problem.out_width), 3 * entries};
}
UnitCost CpuCost(const RowwiseArgs& args, double) { return {3 + Vectors(args.problem.width), 0}; }

// --- a GPU ---

// Bytes per nanosecond: gathered rows, partly from the L2 (measured: 4 to 11 TB/s, depending on the graph), and
// sequential reads of memory.
constexpr double kGatherSpeed = 5000;
constexpr double kMemorySpeed = 4000;
// Float operations per nanosecond of float32 products.
constexpr double kProductSpeed = 25'000;
// Fields run without work lists, so rows are not cut (binned_rows.h): one group of lanes adds an edge of a row about
// every kLongRowNs nanoseconds, as every few edges wait for memory.
constexpr double kLongRowNs = 70;
// dense_row waits for memory at every edge of a row.
constexpr double kDenseRowNs = 1000;
// Nanoseconds per launch of a small kernel: launched separately, which includes waiting for the previous one, and
// replayed from a recording.
constexpr double kLaunchNs = 5000;
constexpr double kReplayedNs = 2500;
// Sending and gathering the data of a field: a copy with a fixed cost, and two launches.
constexpr double kFieldNs = 20'000;
// Nanoseconds per byte sent: copied to pinned memory, then over the bus.
constexpr double kSendNs = 0.15;

double Floats(int64_t count) { return 4.0 * static_cast<double>(count); }
double Flops(int64_t in, int64_t out) { return 2.0 * static_cast<double>(in) * static_cast<double>(out); }

UnitCost GpuCost(const AggregateArgs& args, double) {
  const double element = args.problem.storage == Storage::kFloat32 ? 4 : 2;
  const double edge = 4 + (args.problem.weighted ? 4 : 0) + element * static_cast<double>(args.problem.width);
  const int64_t width = args.problem.width, stored = args.problem.out_width > 0 ? args.problem.out_width : width;
  const double product = Flops(width, args.problem.out_width) / kProductSpeed;
  return {(8 + Floats(stored)) / kMemorySpeed + product, edge / kGatherSpeed, kLongRowNs};
}
UnitCost GpuCost(const AttentionArgs& args, double) {
  const int64_t columns = args.problem.heads * args.problem.head_width;
  const double row = 8 + 2 * Floats(columns) + Floats(args.problem.heads);
  const double edge =
      4 + Floats(args.problem.heads) + Floats(columns) * (args.problem.kind == AttentionKind::kDot ? 2 : 1);
  const int64_t features = args.problem.edge_width;  // multiplied per column in GATv2's scores, otherwise per head
  const int64_t products = args.problem.kind == AttentionKind::kGatV2 ? columns : args.problem.heads;
  return {row / kMemorySpeed, (edge + Floats(features)) / kGatherSpeed + Flops(features, products) / kProductSpeed, 0};
}
UnitCost GpuCost(const MessageReduceArgs& args, double) {
  const MessageReduceProblem& problem = args.problem;
  UnitCost cost = {(8 + Floats(problem.width) + Floats(problem.out_width())) / kMemorySpeed,
                   (4 + Floats(problem.source_width() + problem.edge_width)) / kGatherSpeed +
                       Flops(problem.edge_width, problem.term_width()) / kProductSpeed,
                   0};
  if (problem.form == MessageForm::kOuter) cost.edge += Flops(problem.coefficients(), problem.width) / kProductSpeed;
  if (problem.gaussians > 0) cost.edge += 2 * Flops(problem.edge_width, problem.gaussians) / kProductSpeed;
  int64_t in = problem.mixes() ? problem.edge_width : problem.width;
  for (int32_t layer = 0; layer < problem.num_layers; ++layer) {
    cost.edge += Flops(in, problem.out_widths[layer]) / kProductSpeed;
    in = problem.out_widths[layer];
  }
  return cost;
}
UnitCost GpuCost(const ExpressionArgs& args, double) {
  const EdgeCode& code = *args.problem.code;
  const double work = Floats(code.gathered + code.edge_width) / kGatherSpeed + code.operations / kProductSpeed;
  const double store = (8 + Floats(code.width)) / kMemorySpeed;
  return code.over_edges ? UnitCost{store, work, 0} : UnitCost{store + work, 0, 0};
}
UnitCost GpuCost(const DenseUpdateArgs& args, double) {
  const int64_t in = args.problem.in_width, out = args.problem.out_width;
  return {std::max(Floats(in + out) / kMemorySpeed, Flops(in, out) / kProductSpeed), 0, 0};
}
UnitCost GpuCost(const SparseUpdateArgs& args, double entries) {
  const double out = Floats(args.problem.out_width);
  return {(8 + out) / kMemorySpeed + entries * (8 + out) / kGatherSpeed, 0, 0};
}
UnitCost GpuCost(const SparseAggregateUpdateArgs& args, double entries) {
  const int64_t in = args.problem.in_width;
  return {5 * Floats(in) / kMemorySpeed + entries * Floats(args.problem.out_width) / kGatherSpeed,
          entries * 24 / kGatherSpeed, kDenseRowNs};
}
UnitCost GpuCost(const RowwiseArgs& args, double) { return {3 * Floats(args.problem.width) / kMemorySpeed, 0, 0}; }

}  // namespace

UnitCost UnitCostOf(const Launch& launch, DeviceKind device, double entries) {
  return std::visit(
      [&](const auto& bound) {
        return device == DeviceKind::kCpu ? CpuCost(bound.args, entries) : GpuCost(bound.args, entries);
      },
      launch.bound);
}

FixedCosts FixedCostsOf(DeviceKind device, const FeatureShape& features, double entries, size_t vectors) {
  const double numbers = static_cast<double>(vectors);
  FixedCosts costs;
  if (device == DeviceKind::kCpu) {
    // Copying a row: one random access, then sequential reads.
    costs.node = 20 + (features.sparse ? entries : Vectors(features.cols)) + 5 * numbers;
    return costs;
  }
  costs.run = kFieldNs + kLaunchNs * numbers;
  costs.step = kLaunchNs;
  costs.full_step = kReplayedNs;
  // Sent: the node's number and the ends of its rows. Read and written: its features and numbers.
  const double sent = 16 + (features.sparse ? 8 : 0);
  const double moved = 2 * (features.sparse ? 8 * entries : Floats(features.cols)) + 8 * numbers;
  costs.node = sent * kSendNs + moved / kMemorySpeed;
  costs.edge = 4 * kSendNs;
  return costs;
}

}  // namespace vicinal::internal
