// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/published/partition_dual/detail/measured_theta.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "engine/cuda/common/masked_tiles.h"
#include "engine/cuda/runtime/send.h"
#include "engine/device/row_stride.h"

namespace vicinal::cuda {
namespace {

// Two strips for each multiprocessor of the largest GPUs, of eight tiles each.
constexpr int64_t kStrips = 2 * 132, kTilesPerStrip = 8;
constexpr int64_t kRows = kStrips * kTileRows, kReach = kTilesPerStrip * kTileCols;
constexpr int kMeanGap = 10;  // 1 / p
constexpr int kWarmUps = 3, kRuns = 10;

struct Edges {
  std::vector<int64_t> row_ptr = {0};
  std::vector<int32_t> col;
};

// A square adjacency: each strip reads kReach columns, every one with probability 1 / kMeanGap.
Edges MakeEdges() {
  std::minstd_rand random(1);
  Edges edges;
  for (int64_t row = 0; row < kRows; ++row) {
    const int64_t first = row / kTileRows % (kRows / kReach) * kReach;
    // Gaps of 1 to 2 * kMeanGap - 1, all equally likely.
    for (int64_t at = random() % kMeanGap; at < kReach; at += 1 + static_cast<int64_t>(random() % (2 * kMeanGap - 1))) {
      edges.col.push_back(static_cast<int32_t>(first + at));
    }
    edges.row_ptr.push_back(static_cast<int64_t>(edges.col.size()));
  }
  return edges;
}

// The adjacency and its features in device memory.
struct Sample {
  Buffer row_ptr, col, value, src, dst;
  AggregateArgs args;
};

StatusOr<Sample> MakeSample(const AggregateProblem& kind, Device& device) {
  const Edges edges = MakeEdges();
  const int64_t stride = RowStrideFor(kind.width);
  const std::vector<float> ones(std::max(kRows * stride, edges.row_ptr.back()), 1.0f);
  Sample sample;
  VICINAL_ASSIGN_OR_RETURN(sample.row_ptr, Send(edges.row_ptr, device));
  VICINAL_ASSIGN_OR_RETURN(sample.col, Send(edges.col, device));
  VICINAL_ASSIGN_OR_RETURN(sample.value, Send(ones, device));
  VICINAL_ASSIGN_OR_RETURN(sample.src, Send(ones, device));
  VICINAL_ASSIGN_OR_RETURN(sample.dst, device.Allocate(static_cast<size_t>(kRows * stride) * sizeof(float)));
  AggregateArgs& args = sample.args;
  args.problem.weighted = kind.weighted;
  args.problem.source_scaled = kind.source_scaled;
  args.problem.width = kind.width;
  args.problem.rows = args.problem.cols = kRows;
  args.problem.edges = edges.row_ptr.back();
  args.adjacency = {kRows,
                    kRows,
                    args.problem.edges,
                    sample.row_ptr.as<int64_t>(),
                    sample.col.as<int32_t>(),
                    kind.weighted && !kind.source_scaled ? sample.value.as<float>() : nullptr};
  args.src = {sample.src.as<float>(), kRows, kind.width, stride};
  if (kind.source_scaled) args.src_scale = sample.value.as<float>();
  args.dst = {sample.dst.as<float>(), kRows, kind.width, stride};
  return sample;
}

// Of one run.
StatusOr<double> Seconds(const AggregateKernel& kernel, AggregateArgs args, const KernelConfig& config,
                         LayoutSource& source, DeviceContext& context) {
  args.config = config;
  VICINAL_ASSIGN_OR_RETURN(const AdjacencyLayoutRef layout, kernel.MakeLayout(args.problem, config, source));
  args.layout = layout.get();
  VICINAL_ASSIGN_OR_RETURN(const Buffer scratch,
                           source.device().Allocate(kernel.ScratchBytes(args.problem, config, 1)));
  VICINAL_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceTimer> timer, context.MakeTimer(kRuns + 1));
  for (int run = -kWarmUps; run < kRuns; ++run) {
    if (run >= 0) VICINAL_RETURN_IF_ERROR(timer->Mark(run));
    VICINAL_RETURN_IF_ERROR(kernel.Run(context, args, scratch.data()));
  }
  VICINAL_RETURN_IF_ERROR(timer->Mark(kRuns));
  VICINAL_RETURN_IF_ERROR(context.Synchronize());
  std::vector<double> seconds(kRuns);
  for (int run = 0; run < kRuns; ++run) {
    VICINAL_ASSIGN_OR_RETURN(seconds[run], timer->Seconds(run, run + 1));
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRuns / 2, seconds.end());
  return seconds[kRuns / 2];
}

}  // namespace

StatusOr<double> MeasureTheta(const AggregateKernel& kernel, const AggregateProblem& kind, const KernelConfig& full,
                              const KernelConfig& selective, Device& device) {
  const std::unique_ptr<DeviceContext> context = device.CreateContext();
  VICINAL_ASSIGN_OR_RETURN(const Sample sample, MakeSample(kind, device));
  LayoutSource source(sample.args.adjacency, {}, device);
  VICINAL_ASSIGN_OR_RETURN(const double in_full, Seconds(kernel, sample.args, full, source, *context));
  VICINAL_ASSIGN_OR_RETURN(const double in_selective, Seconds(kernel, sample.args, selective, source, *context));
  const double density = static_cast<double>(sample.args.problem.edges) / static_cast<double>(kRows * kReach);
  return 1000.0 * in_full * density / in_selective;
}

int RoundedTheta(double theta) {
  constexpr double kPerDecade = 10.0;
  return static_cast<int>(std::lround(std::pow(10.0, std::round(kPerDecade * std::log10(theta)) / kPerDecade)));
}

}  // namespace vicinal::cuda
