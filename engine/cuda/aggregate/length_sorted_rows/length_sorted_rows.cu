// SPDX-License-Identifier: Apache-2.0
// The launcher of length_sorted_rows, and its float32 layouts.
#include <algorithm>
#include <cstdint>

#include "engine/cuda/aggregate/length_sorted_rows/detail/length_sorted_rows.cuh"
#include "engine/cuda/aggregate/rows/finish_rows.h"
#include "engine/cuda/common/alignment.h"

namespace vicinal::cuda {
namespace {

int64_t PartialBytes(const AggregateProblem& problem, const LengthSortedConfig& config) {
  const int64_t whole = problem.edges / config.part;
  return (whole + std::min(problem.rows, whole)) * PackedStride(problem.width) * int64_t{sizeof(float)};
}

// Larger blocks start more rows together, but if there are few, multiprocessors end at different times. Measured on an
// H200, float32, widths 32 to 128: artist (1.6 M edges): 28.1 us with 128 threads, 29.7 with 512; rmat5 (10 M): 394.8
// and 389.9; proteins (79 M): 2024 with 512, 1929 with 1024.
int ThreadsFor(int64_t edges) {
  if (edges < int64_t{1} << 22) return kBlockThreads;
  return edges < int64_t{1} << 24 ? 512 : 1024;
}

}  // namespace

cudaError_t LaunchLengthSortedFloats(const LengthSortedLaunch& launch) {
  if (!launch.packed) return LaunchLengthSortedModes<float, 1, 32>(launch);
  if (launch.tile <= 16) return LaunchLengthSortedModes<float, 4, 4>(launch);
  return launch.tile <= 32 ? LaunchLengthSortedModes<float, 4, 8>(launch)
                           : LaunchLengthSortedModes<float, 4, 16>(launch);
}

bool ScalesFirst(const AggregateProblem& problem, const LengthSortedConfig& config) {
  return config.scale_first && problem.source_scaled && problem.storage == Storage::kFloat32;
}

size_t LengthSortedScratchBytes(const AggregateProblem& problem, const LengthSortedConfig& config) {
  const int64_t copied = ScalesFirst(problem, config) ? ScaledSourcesBytes(problem) : 0;
  return static_cast<size_t>(PartialBytes(problem, config) + copied);
}

cudaError_t LaunchLengthSortedRows(const AggregateArgs& args, const RowWorkLayout* work,
                                   const LengthSortedConfig& config, const LaunchTarget& target, void* scratch) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  if (ScalesFirst(args.problem, config) && args.src_scale != nullptr && args.self_scale == 0.0f) {
    AggregateArgs sum = args;
    LaunchTarget after_copy = target;
    const cudaError_t error =
        LaunchScaleFirst(static_cast<char*>(scratch) + PartialBytes(args.problem, config), &sum, &after_copy);
    return error != cudaSuccess ? error : LaunchLengthSortedRows(sum, work, config, after_copy, scratch);
  }
  RowsParams params = RowsParamsOf(args);
  params.parts.partials = static_cast<float*>(scratch);
  if (work != nullptr) {
    params.work.bundled = work->items();
    params.work.num_short = static_cast<uint32_t>(work->num_short());
  }
  const bool narrow = params.source.rows.storage != Storage::kFloat32;
  const int64_t tile = config.tile > 0 ? config.tile : narrow ? 64 : 32;
  const LengthSortedLaunch launch = {params,
                                     static_cast<int>(std::min(args.dst.cols, tile)),
                                     InPacks(params.source.rows),
                                     work != nullptr ? ThreadsFor(args.problem.edges) : 0,
                                     config.part,
                                     target};
  const cudaError_t error = narrow ? LaunchLengthSortedNarrow(launch) : LaunchLengthSortedFloats(launch);
  if (error != cudaSuccess || work == nullptr || work->num_splits() == 0) return error;
  return LaunchFinishSplitRows(params, {work->splits(), work->num_splits(), /*parts_are_quads=*/false}, target);
}

}  // namespace vicinal::cuda
