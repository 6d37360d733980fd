// SPDX-License-Identifier: Apache-2.0
// Lays out a launch of fused attention, and averages heads. The plain kernel below takes what the fused one cannot:
// heads of GATv2 too wide for registers. It reads each edge three times per head and column of 32 (scores twice, values
// once) and does not cut long rows.
#include "engine/cuda/attention.cuh"

namespace vicinal::cuda {
namespace {

constexpr int64_t kLongRow = 8;
constexpr int kThreads = 128;

// dst = epilogue(mean over heads), thread per element.
__global__ void __launch_bounds__(kThreads)
    MeanHeads(const float* heads_out, int heads, MatrixView dst, Epilogue epilogue) {
  const int64_t element = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (element >= dst.rows * dst.cols) return;
  const int64_t row = element / dst.cols, col = element % dst.cols;
  float sum = 0.0f;
  for (int k = 0; k < heads; ++k) sum += heads_out[(row * heads + k) * dst.cols + col];
  dst.data[row * dst.stride + col] = ApplyEpilogue(epilogue, __fdiv_rn(sum, static_cast<float>(heads)), row, col);
}

__device__ float PlainScore(const AttentionArgs& args, int64_t row, int64_t source, int64_t head) {
  if (args.problem.kind == AttentionKind::kGat) {
    return LeakyRelu(args.score_src.data[source * args.score_src.stride + head] +
                         args.score_dst.data[row * args.score_dst.stride + head],
                     args.negative_slope);
  }
  float score = 0.0f;
  for (int64_t c = threadIdx.x % 32; c < args.problem.head_width; c += 32) {
    const int64_t col = head * args.problem.head_width + c;
    const float x = args.value.data[source * args.value.stride + col] + args.query.data[row * args.query.stride + col];
    score = fmaf(args.att[col], LeakyRelu(x, args.negative_slope), score);
  }
  for (int distance = 16; distance > 0; distance /= 2) score += __shfl_xor_sync(0xffffffffu, score, distance);
  return score;
}

// The softmax-weighted sum of one head in the column `c` of this lane; lanes beyond the head's width come along for the
// scores.
__device__ float PlainHead(const AttentionArgs& args, int64_t row, int64_t head, int64_t c) {
  constexpr int64_t kFold = 256;  // edges, so that rounding hardly grows with the length of a row
  SoftmaxState<1, 1> state, part;
  state.Clear();
  part.Clear();
  const int64_t begin = args.adjacency.row_ptr[row], end = args.adjacency.row_ptr[row + 1];
  for (int64_t e = begin; e < end; ++e) {
    const int64_t source = args.adjacency.col[e];
    const float score = PlainScore(args, row, source, head);
    Pack<1> x[1] = {{0.0f}};
    if (c < args.problem.head_width) {
      x[0].v[0] = args.value.data[source * args.value.stride + head * args.problem.head_width + c];
    }
    part.Add(score, x);
    if (e + 1 < end && (e - begin) % kFold != kFold - 1) continue;
    state.Merge(part);
    part.Clear();
  }
  return state.denominator > 0.0f ? __fdiv_rn(state.sum[0].v[0], state.denominator) : 0.0f;
}

__global__ void __launch_bounds__(kThreads) PlainAttention(const AttentionArgs args) {
  const int64_t row = int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
  if (row >= args.dst.rows) return;
  const int64_t heads = args.problem.heads, width = args.problem.head_width;
  for (int64_t c0 = 0; c0 < width; c0 += 32) {
    const int64_t c = c0 + threadIdx.x % 32;
    float sum = 0.0f;
    for (int64_t head = 0; head < heads; ++head) {
      const float x = PlainHead(args, row, head, c);
      const int64_t col = head * width + c;
      if (args.problem.concat && c < width) {
        args.dst.data[row * args.dst.stride + col] = ApplyEpilogue(args.epilogue, x, row, col);
      }
      sum += x;
    }
    if (args.problem.concat || c >= width) continue;
    args.dst.data[row * args.dst.stride + c] =
        ApplyEpilogue(args.epilogue, __fdiv_rn(sum, static_cast<float>(heads)), row, c);
  }
}

}  // namespace

cudaError_t LaunchPlainAttention(const AttentionArgs& args, const LaunchTarget& target) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  const unsigned blocks = static_cast<unsigned>((args.dst.rows * 32 + kThreads - 1) / kThreads);
  PlainAttention<<<blocks, kThreads, 0, target.stream>>>(args);
  return cudaGetLastError();
}

cudaError_t LaunchFusedAttention(const AttentionArgs& args, const LaunchTarget& target, void* scratch) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  const AttentionProblem& problem = args.problem;
  const AttentionScratch layout(problem);
  const bool aligned = reinterpret_cast<uintptr_t>(args.value.data) % 16 == 0 && args.value.stride % 4 == 0;
  const int vec = aligned && problem.head_width % 4 == 0 ? 4 : 1;
  AttentionParams params;
  params.adjacency = args.adjacency;
  params.value = args.value;
  params.score_src = args.score_src;
  params.score_dst = args.score_dst;
  params.query = args.query;
  params.att = args.att;
  params.negative_slope = args.negative_slope;
  params.dst = args.dst;
  params.epilogue = args.epilogue;
  params.heads = static_cast<int>(problem.heads);
  params.head_width = static_cast<int>(problem.head_width);
  const int64_t head_packs = problem.head_width / vec;
  const int packs = problem.kind == AttentionKind::kGatV2 && head_packs > 32 ? 4 : 1;
  params.lanes_per_head = static_cast<int>(NextPowerOfTwo((head_packs + packs - 1) / packs));
  params.lanes = problem.heads * (problem.kind == AttentionKind::kGat ? head_packs : params.lanes_per_head);
  char* bytes = static_cast<char*>(scratch);
  params.heads_out = problem.concat ? nullptr : reinterpret_cast<float*>(bytes + layout.heads_offset);
  params.cells = layout.pieces.cells;
  params.partial_stride = layout.pieces.stride;
  params.sum_floats = layout.sum_floats;
  params.partials = static_cast<float*>(scratch);
  params.tickets = target.tickets;
  if (layout.pieces.tickets > 0) {
    params.tickets = reinterpret_cast<int*>(params.partials + params.cells * params.partial_stride);
    const cudaError_t error = cudaMemsetAsync(params.tickets, 0, layout.pieces.tickets * sizeof(int), target.stream);
    if (error != cudaSuccess) return error;
  }
  const bool long_rows = problem.edges >= kLongRow * problem.rows;
  const cudaError_t error = problem.kind == AttentionKind::kGat
                                ? LaunchGat(params, vec, long_rows, target.stream)
                                : LaunchGatV2(params, vec, packs, long_rows, target.stream);
  if (error != cudaSuccess || problem.concat) return error;
  const unsigned blocks = static_cast<unsigned>((args.dst.rows * args.dst.cols + kThreads - 1) / kThreads);
  MeanHeads<<<blocks, kThreads, 0, target.stream>>>(params.heads_out, params.heads, args.dst, args.epilogue);
  return cudaGetLastError();
}

}  // namespace vicinal::cuda
