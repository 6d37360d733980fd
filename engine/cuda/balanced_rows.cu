// SPDX-License-Identifier: Apache-2.0
// Lays out a launch of balanced_rows: lanes per row from the width, groups from the mean degree. Then the rows that
// were split.
#include <algorithm>

#include "engine/cuda/balanced_rows.cuh"

namespace vicinal::cuda {
namespace {

// Rows of fewer edges on average are read one edge after the other: several groups would mostly idle. Measured on an
// H200 with the graph `molecules` (2.1 edges per node): 412 us against 480 at width 64.
constexpr int64_t kFewEdges = 5;

__global__ void __launch_bounds__(kBlockThreads)
    FinishSplitRows(const __grid_constant__ RowsParams params, const SplitRow* splits, int parts_per_quad) {
  const SplitRow split = splits[blockIdx.x];
  const int64_t col = int64_t{blockIdx.y} * kBlockThreads + threadIdx.x;
  if (col >= params.dst.cols || !Holds(params.condition)) return;
  const float* partial = params.partials + split.first_part * params.dst.cols + col;
  float total[1] = {0.0f};
  for (int first = 0; first < split.parts; first += parts_per_quad) {
    float quad = partial[first * params.dst.cols];
    for (int part = first + 1; part < min(first + parts_per_quad, split.parts); ++part) {
      const float x = partial[part * params.dst.cols];
      quad = params.extremum ? fmaxf(quad, x) : quad + x;
    }
    total[0] = first == 0 ? quad : params.extremum ? fmaxf(total[0], quad) : total[0] + quad;
  }
  FinishRow(params, params.num_parts, split.row, static_cast<int>(col), total);
}

// Elements per load: all of 16 bytes where the rows begin at multiples of that, else one.
int PackWidth(const void* data, int64_t stride, int64_t element_bytes) {
  const int64_t pack = 16 / element_bytes;
  return reinterpret_cast<uintptr_t>(data) % 16 == 0 && stride % pack == 0 ? static_cast<int>(pack) : 1;
}

int LanesFor(int64_t columns, int vec) {
  int lanes = 2;
  while (lanes < 32 && lanes * vec < columns) lanes *= 2;
  return lanes;
}

// Wide rows go in tiles of 64 columns, two edges at once, rather than of 128: it read 4 to 5 % faster on the graphs
// with many edges per row that were measured, and the source's part that is read over and over is smaller. Rows of few
// edges want as many columns at once as there are.
int64_t TileFor(int64_t width, int64_t mean_edges, const BalancedRowsConfig& config) {
  if (config.tile > 0) return std::min<int64_t>(width, config.tile);
  return std::min<int64_t>(width, mean_edges < kFewEdges ? 128 : 64);
}

cudaError_t LaunchMode(const RowsParams& params, bool weighted, int vec, int lanes, int groups, cudaStream_t stream) {
  if (params.storage != Storage::kFloat32) return LaunchNarrow(params, vec, lanes, stream);
  if (params.extremum) return LaunchExtremum(params, vec, lanes, groups, stream);
  return weighted ? LaunchWeightedSum(params, vec, lanes, groups, stream)
                  : LaunchPlainSum(params, vec, lanes, groups, stream);
}

}  // namespace

cudaError_t LaunchBalancedRows(const AggregateArgs& args, const RowWorkLayout* work, const BalancedRowsConfig& config,
                               const RowBase& base, const RowCondition& condition, const LaunchTarget& target,
                               void* scratch) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  const bool narrow = args.problem.storage != Storage::kFloat32;
  RowsParams params;
  params.adjacency = args.adjacency;
  params.src_scale = args.src_scale;
  params.src = narrow ? static_cast<const void*>(args.src16.data) : args.src.data;
  params.src_stride = narrow ? args.src16.stride : args.src.stride;
  params.src_stride_bytes = static_cast<uint32_t>(params.src_stride * (narrow ? 2 : 4));
  params.storage = args.problem.storage;
  params.dst = args.dst;
  params.items = work != nullptr ? work->items() : nullptr;
  params.num_items = work != nullptr ? work->num_items() : args.dst.rows;
  params.num_parts = work != nullptr ? work->num_parts() : 0;
  params.partials = static_cast<float*>(scratch);
  params.base = base;
  params.condition = condition;
  params.reduce = args.problem.reduce;
  params.self_scale = args.self_scale;
  params.epilogue = args.epilogue;
  params.extremum = params.reduce == Reduce::kMax || params.reduce == Reduce::kMin;
  params.vector_store = reinterpret_cast<uintptr_t>(args.dst.data) % 16 == 0 && args.dst.stride % 4 == 0 &&
                        args.dst.cols % (narrow ? 8 : 4) == 0;
  const Epilogue& epilogue = args.epilogue;
  params.finish = epilogue.scale != 1.0f || epilogue.row_scale != nullptr || epilogue.bias != nullptr ||
                  !epilogue.addend.empty() || epilogue.activation.kind != ActivationKind::kNone;
  params.plain = !params.extremum && params.reduce != Reduce::kMean && base.sums == nullptr &&
                 params.self_scale == 0.0f && !params.finish;
  const int vec = PackWidth(params.src, params.src_stride, narrow ? 2 : 4);
  const int64_t mean_edges = args.problem.edges / std::max<int64_t>(args.problem.rows, 1);
  const int lanes = LanesFor(TileFor(args.dst.cols, mean_edges, config), vec);
  const int groups = config.groups > 0 ? config.groups : mean_edges < kFewEdges ? 1 : kChains;
  const bool weighted = args.adjacency.value != nullptr || args.src_scale != nullptr;
  const cudaError_t error = LaunchMode(params, weighted, vec, lanes, groups, target.stream);
  if (error != cudaSuccess || work == nullptr || work->num_splits() == 0) return error;
  const dim3 grid(static_cast<unsigned>(work->num_splits()),
                  static_cast<unsigned>((args.dst.cols + kBlockThreads - 1) / kBlockThreads));
  FinishSplitRows<<<grid, kBlockThreads, 0, target.stream>>>(params, work->splits(),
                                                             kQuadEdges / PartEdges(args.adjacency.nnz));
  return cudaGetLastError();
}

}  // namespace vicinal::cuda
