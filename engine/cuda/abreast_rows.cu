// SPDX-License-Identifier: Apache-2.0
// Lays out a launch of abreast_rows. Rows of float32.
#include <algorithm>
#include <cstdint>

#include "engine/cuda/abreast_rows.cuh"
#include "engine/cuda/dense_update.h"
#include "engine/cuda/finish_rows.h"
#include "engine/cuda/pack.cuh"

namespace vicinal::cuda {
namespace {

// Adds the parts of a split row, four at a time, then those sums, and finishes it: a group of 1 << shift lanes to a
// row, kVec columns to a lane.
template <int kVec>
__global__ void __launch_bounds__(kBlockThreads)
    FinishParts(const __grid_constant__ RowsParams params, const SplitRow* splits, int64_t num_splits, int shift) {
  LetNextBegin();
  const int64_t group = (int64_t{blockIdx.x} * kBlockThreads + threadIdx.x) >> shift;
  const int lane = static_cast<int>(threadIdx.x) & ((1 << shift) - 1);
  const int col = ((static_cast<int>(blockIdx.y) << shift) + lane) * kVec;
  const bool mine = group < num_splits && col < params.dst.cols;
  const SplitRow split = splits[mine ? group : 0];
  const int64_t* const row_ptr = params.adjacency.row_ptr + split.row;
  const Finish finish = FinishOf(params, split.row, static_cast<int>(row_ptr[1] - row_ptr[0]));
  AwaitFormer();
  if (!mine) return;
  const auto join = [&](float a, float b) { return params.extremum ? fmaxf(a, b) : a + b; };
  const float* const partial = params.partials + split.first_part * params.dst.cols + col;
  Pack<kVec> total = {};
#pragma unroll 1
  for (int first = 0; first < split.parts; first += kPiecesPerQuad) {
    Pack<kVec> x[kPiecesPerQuad];
#pragma unroll
    for (int i = 0; i < kPiecesPerQuad; ++i) {
      x[i] = LoadCoherent<kVec>(partial + min(first + i, split.parts - 1) * params.dst.cols);
    }
#pragma unroll
    for (int c = 0; c < kVec; ++c) {
      float quad = x[0].v[c];
#pragma unroll
      for (int i = 1; i < kPiecesPerQuad; ++i) quad = first + i < split.parts ? join(quad, x[i].v[c]) : quad;
      total.v[c] = first == 0 ? quad : join(total.v[c], quad);
    }
  }
  EpilogueTerms terms[kVec];
  float own[kVec] = {};
#pragma unroll
  for (int c = 0; c < kVec; ++c) {
    terms[c] = TermsOf(params.epilogue, split.row, col + c);
    if (params.self_scale != 0.0f) own[c] = ElementAt(params.src, split.row, col + c);
  }
#pragma unroll
  for (int c = 0; c < kVec; ++c) {
    total.v[c] = ApplyEpilogue(params.epilogue, terms[c], WithSelf(params, own[c], Scaled(params, finish, total.v[c])));
  }
  StoreColumns(params, finish, col, total.v);
}

cudaError_t LaunchFinishParts(const RowsParams& params, const RowWorkLayout& work, cudaStream_t stream) {
  const int vec = params.dst.cols % 4 == 0 ? 4 : 1;
  int shift = 0;
  while (shift < 5 && (vec << shift) < params.dst.cols) ++shift;
  const int64_t groups = kBlockThreads >> shift, tile = int64_t{vec} << shift;
  const dim3 grid(static_cast<unsigned>((work.num_splits() + groups - 1) / groups),
                  static_cast<unsigned>((params.dst.cols + tile - 1) / tile));
  // Always, for what comes before it is this launch's own.
  return LaunchOverlapping(true, vec == 4 ? FinishParts<4> : FinishParts<1>, grid, kBlockThreads, stream, params,
                           work.splits(), work.num_splits(), shift);
}

int64_t PartialBytes(const AggregateProblem& problem, const AbreastConfig& config) {
  const int64_t whole = problem.edges / config.part;
  return (whole + std::min(problem.rows, whole)) * PackedStride(problem.width) * int64_t{sizeof(float)};
}

MatrixView CopyIn(float* data, const AggregateProblem& problem) {
  return {data, problem.cols, problem.width, PackedStride(problem.width)};
}

// The larger a block, the more rows begin together; but where there are few, multiprocessors end at different times.
// Measured on an H200, float32, widths 32 to 128: artist, 1.6 M edges, 28.1 us with 128 threads and 29.7 with 512,
// rmat5, 10 M, 394.8 and 389.9, proteins, 79 M, 2024 with 512 and 1929 with 1024.
int ThreadsFor(int64_t edges) {
  if (edges < int64_t{1} << 22) return kBlockThreads;
  return edges < int64_t{1} << 24 ? 512 : 1024;
}

}  // namespace

cudaError_t LaunchAbreastFloats(const AbreastLaunch& launch) {
  if (!launch.packed) return LaunchAbreastModes<float, 1, 32>(launch);
  if (launch.tile <= 16) return LaunchAbreastModes<float, 4, 4>(launch);
  return launch.tile <= 32 ? LaunchAbreastModes<float, 4, 8>(launch) : LaunchAbreastModes<float, 4, 16>(launch);
}

bool ScalesFirst(const AggregateProblem& problem, const AbreastConfig& config) {
  return config.scale_first && problem.source_scaled && problem.storage == Storage::kFloat32;
}

size_t AbreastScratchBytes(const AggregateProblem& problem, const AbreastConfig& config) {
  const int64_t copied =
      ScalesFirst(problem, config) ? problem.cols * PackedStride(problem.width) * int64_t{sizeof(float)} : 0;
  return static_cast<size_t>(PartialBytes(problem, config) + copied);
}

cudaError_t LaunchAbreastRows(const AggregateArgs& args, const RowWorkLayout* work, const AbreastConfig& config,
                              const LaunchTarget& target, void* scratch) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  RowsParams params = RowsParamsOf(args, target);
  params.partials = static_cast<float*>(scratch);
  // Own rows are added as they are.
  if (ScalesFirst(args.problem, config) && args.src_scale != nullptr && args.self_scale == 0.0f) {
    const MatrixView copy =
        CopyIn(params.partials + PartialBytes(args.problem, config) / int64_t{sizeof(float)}, args.problem);
    const cudaError_t error = LaunchCopySources(args, copy, target);
    if (error != cudaSuccess) return error;
    params.src = {copy.data, copy.stride, Storage::kFloat32};
    params.src_stride_bytes = static_cast<uint32_t>(copy.stride * int64_t{sizeof(float)});
    params.weights = nullptr;
    params.overlap = true;
  }
  if (work != nullptr) {
    params.bundled = work->items();
    params.num_short = static_cast<uint32_t>(work->num_short());
  }
  const bool narrow = params.src.storage != Storage::kFloat32;
  const int64_t tile = config.tile > 0 ? config.tile : narrow ? 64 : 32;
  const AbreastLaunch launch = {params,
                                static_cast<int>(std::min(args.dst.cols, tile)),
                                IsPacked(params.src),
                                work != nullptr ? ThreadsFor(args.problem.edges) : 0,
                                config.part,
                                target.stream};
  const cudaError_t error = narrow ? LaunchAbreastNarrow(launch) : LaunchAbreastFloats(launch);
  if (error != cudaSuccess || work == nullptr || work->num_splits() == 0) return error;
  return LaunchFinishParts(params, *work, target.stream);
}

}  // namespace vicinal::cuda
