// SPDX-License-Identifier: Apache-2.0
// template_sddmm: FeatGraph's generalised SDDMM (Hu et al., SC'20, section III). Per edge, it computes the dot product
// of u and v for each head, or a whole message.
//
// Idea. As in FeatGraph on a GPU, adjacent lanes cover adjacent features (feature-parallel threads), and products are a
// tree reduction over lanes, here by shuffles. A warp takes adjacent edges, whatever rows they belong to, so work is
// even without preparation: 8 on small graphs, where latency is all there is, up to 256 on large ones, so that the
// search for the first edge's row is shared. For 32 edges at a time each lane finds the row of one; then groups of
// lanes load sources and targets of four edges before they use the first. Rows of a target are read again for each of
// its edges, from the L1 cache: keeping them in registers made every new row a wait. As many heads are computed at once
// as there are lanes; a head starts at a multiple of its lanes, rounded up to a power of two. To measure the value of
// the tree, there is also a kernel in which a thread computes an edge with all its columns, as in Gunrock
// (EdgeProductsSerial). Each result depends on its own edge alone, in one order of evaluation. Traffic: edges * (4 + 4
// * width) bytes of gather and edges * 4 * heads (or width) of stores.
#include <algorithm>
#include <cstdint>

#include "engine/cuda/common/alignment.h"
#include "engine/cuda/common/row_pieces.cuh"
#include "engine/cuda/message/message.cuh"
#include "engine/cuda/published/template_sddmm/template_sddmm.h"

namespace vicinal::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kAtOnce = 4;
constexpr int64_t kLeastWarpEdges = 8, kMostWarpEdges = 256, kWarpsPerMultiprocessor = 64;

struct Params {
  CsrView adjacency;
  ConstMatrixView src, target;
  MatrixView dst;
  Message message;
  int heads, head_width;
  int lanes_per_head;
  int group_edges;  // of a group of lanes; of a warp in EdgeProducts
};

// The edges of a group of lanes.
template <int kLanes>
struct EdgeWork {
  int lane;
  int64_t base;        // row_ptr[0]
  int64_t begin, end;  // indices into col
  int64_t row, row_end;

  __device__ explicit EdgeWork(const Params& params) {
    lane = static_cast<int>(threadIdx.x) % kLanes;
    const int64_t* row_ptr = params.adjacency.row_ptr;
    const int64_t group = int64_t{blockIdx.x} * (kThreads / kLanes) + threadIdx.x / kLanes;
    base = __ldg(row_ptr);
    begin = base + group * params.group_edges;
    end = min(begin + params.group_edges, __ldg(row_ptr + params.adjacency.rows));
    row = begin < end ? RowOfEdge<kLanes>(row_ptr, params.adjacency.rows, begin) : 0;
    row_end = __ldg(row_ptr + row + 1);
  }
};

// A lane's columns of a head: kPacks packs, lanes_per_head packs apart.
template <int kVec, int kLanes, int kPacks>
struct HeadPart {
  int first, step;  // columns within the head
  bool has_head;
  int64_t column;  // first column of the head

  __device__ bool Has(const Params& params, int pack) const {
    return has_head && first + pack * step < params.head_width;
  }
  __device__ void Load(const Params& params, const float* row, Pack<kVec> (&x)[kPacks]) const {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      x[p] = Pack<kVec>::Filled(0.0f);
      if (Has(params, p)) x[p] = LoadReadOnly<kVec>(row + column + first + p * step);
    }
  }
};

// Reduces kAtOnce scores over the lanes of a head, each as a tree over lanes. The first two levels of the four trees
// are merged: each half of the lanes continues with half of the scores. The pairs, and so the bits, are those of four
// separate trees. If `writes`, the lane then holds the score of edge `mine`.
struct TreeSum {
  float score;
  int mine;
  bool writes;

  __device__ TreeSum(const float (&part)[kAtOnce], unsigned mask, int lane, int lanes_per_head) {
    static_assert(kAtOnce == 4);
    const int half = lanes_per_head / 2, quarter = lanes_per_head / 4;
    const bool upper = (lane & half) != 0, odd = (lane & quarter) != 0;
    float even_sum = upper ? part[2] : part[0], odd_sum = upper ? part[3] : part[1];
    even_sum += __shfl_xor_sync(mask, upper ? part[0] : part[2], half);
    odd_sum += __shfl_xor_sync(mask, upper ? part[1] : part[3], half);
    score = odd ? odd_sum : even_sum;
    score += __shfl_xor_sync(mask, odd ? even_sum : odd_sum, quarter);
    for (int distance = quarter / 2; distance > 0; distance /= 2) {
      score += __shfl_xor_sync(mask, score, distance);
    }
    mine = (upper ? 2 : 0) + (odd ? 1 : 0);
    writes = lane % quarter == 0;
  }
};

__device__ inline void StoreScore(const Params& params, int64_t row, int head, bool adds, float score) {
  float* dst = params.dst.data + row * params.dst.stride + head;
  *dst = adds ? *dst + score : score;
}

// Computes and stores the scores of kAtOnce edges from the lanes' parts. Heads of fewer than four lanes are too narrow
// for a merged tree. first: the edge's number in dst; count: edges that are there.
template <int kLanes>
__device__ inline void StoreScores(const Params& params, int lane, int64_t first, int count, int head, bool has_head,
                                   bool adds, float (&part)[kAtOnce]) {
  if (params.lanes_per_head >= kAtOnce) {
    const TreeSum sum(part, kWholeWarp, lane, params.lanes_per_head);
    if (sum.writes && has_head && sum.mine < count) StoreScore(params, first + sum.mine, head, adds, sum.score);
    return;
  }
#pragma unroll
  for (int i = 0; i < kAtOnce; ++i) {
    if (params.lanes_per_head == 2) part[i] += __shfl_xor_sync(kWholeWarp, part[i], 1);
    if (has_head && lane % params.lanes_per_head == 0 && i < count) {
      StoreScore(params, first + i, head, adds, part[i]);
    }
  }
}

// Adjacent edges, at most 32. Each lane has the source and the row of one; further lanes those of the last one.
struct WarpEdges {
  int64_t first;  // in the adjacency
  int count;
  int32_t source, row;

  // `low`: a row that is not after that of the first edge.
  __device__ WarpEdges(const CsrView& adjacency, int64_t begin, int edges, int64_t low) : first(begin), count(edges) {
    const int lane = threadIdx.x % 32, edge = min(lane, count - 1);
    source = __ldg(adjacency.col + first + edge);
    const int64_t next = low + 1 + lane;  // begins at edge `start`, counted from the first one
    const int start =
        next < adjacency.rows ? static_cast<int>(min(__ldg(adjacency.row_ptr + next) - first, int64_t{32})) : 32;
    int passed = 0;  // of those rows, which begin up to this lane's edge
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      if (__shfl_sync(kWholeWarp, start, passed + step - 1) <= edge) passed += step;
    }
    row = static_cast<int32_t>(low + passed);
    // Rows without edges may be more than 32.
    if (__shfl_sync(kWholeWarp, start, 31) < count)
      row = static_cast<int32_t>(RowOfEdge<1>(adjacency.row_ptr, adjacency.rows, first + edge));
  }
};

// Products of a warp's edges, for as many heads as fit a group's lanes, and for part of their columns.
template <int kVec, int kLanes, int kPacks>
__device__ inline void MultiplyEdges(const Params& params, const WarpEdges& edges, int64_t first_score,
                                     const HeadPart<kVec, kLanes, kPacks>& part, int head, bool adds) {
  constexpr int kGroups = 32 / kLanes;
  const int lane = threadIdx.x % 32;
  for (int base = 0; base < edges.count; base += kGroups * kAtOnce) {
    const int first = base + lane / kLanes * kAtOnce;
    float score[kAtOnce] = {};
    Pack<kVec> u[kAtOnce][kPacks], v[kAtOnce][kPacks];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int64_t source = __shfl_sync(kWholeWarp, edges.source, first + i);
      const int64_t row = __shfl_sync(kWholeWarp, edges.row, first + i);
      part.Load(params, params.src.data + source * params.src.stride, u[i]);
      part.Load(params, params.target.data + row * params.target.stride, v[i]);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
#pragma unroll
        for (int x = 0; x < kVec; ++x) score[i] = fmaf(u[i][p].v[x], v[i][p].v[x], score[i]);
      }
    }
    StoreScores<kLanes>(params, lane % kLanes, first_score + first, edges.count - first, head, part.has_head, adds,
                        score);
  }
}

template <int kVec, int kLanes, int kPacks>
__global__ void __launch_bounds__(kThreads) EdgeProducts(const __grid_constant__ Params params) {
  const CsrView& adjacency = params.adjacency;
  const int64_t warp = int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
  const int64_t base = __ldg(adjacency.row_ptr), begin = base + warp * params.group_edges;
  const int64_t end = min(begin + params.group_edges, __ldg(adjacency.row_ptr + adjacency.rows));
  if (begin >= end) return;
  const int own = threadIdx.x % kLanes, at_once = kLanes / params.lanes_per_head;
  int64_t row = RowOfEdge<32>(adjacency.row_ptr, adjacency.rows, begin);
  for (int64_t first = begin; first < end; first += 32) {
    const WarpEdges edges(adjacency, first, static_cast<int>(min(end - first, int64_t{32})), row);
    for (int head0 = 0; head0 < params.heads; head0 += at_once) {
      const int head = head0 + own / params.lanes_per_head;
      HeadPart<kVec, kLanes, kPacks> part;
      part.step = params.lanes_per_head * kVec;
      part.has_head = head < params.heads;
      part.column = int64_t{head} * params.head_width;
      for (int c0 = 0; c0 < params.head_width; c0 += kPacks * part.step) {
        part.first = c0 + own % params.lanes_per_head * kVec;
        MultiplyEdges<kVec, kLanes, kPacks>(params, edges, first - base, part, head, c0 > 0);
      }
    }
    row = __shfl_sync(kWholeWarp, edges.row, 31);
  }
}

// A product computed by one thread. Every 64 columns are summed separately, so that rounding hardly grows with the
// width.
template <int kVec>
__device__ inline float SerialProduct(const float* u, const float* v, int width) {
  constexpr int kColumns = 64;
  float score = 0.0f;
  for (int first = 0; first < width; first += kColumns) {
    float sum = 0.0f;
    for (int c = first; c < min(first + kColumns, width); c += kVec) {
      const Pack<kVec> x = LoadReadOnly<kVec>(u + c), y = LoadReadOnly<kVec>(v + c);
#pragma unroll
      for (int i = 0; i < kVec; ++i) sum = fmaf(x.v[i], y.v[i], sum);
    }
    score += sum;
  }
  return score;
}

template <int kVec>
__global__ void __launch_bounds__(kThreads) EdgeProductsSerial(const __grid_constant__ Params params) {
  const EdgeWork<32> work(params);
  const int64_t edge = work.begin + work.lane;
  if (edge >= work.end) return;
  int64_t row = work.row;
  while (edge >= __ldg(params.adjacency.row_ptr + row + 1)) ++row;
  const float* u = params.src.data + __ldg(params.adjacency.col + edge) * params.src.stride;
  const float* v = params.target.data + row * params.target.stride;
  float* dst = params.dst.data + (edge - work.base) * params.dst.stride;
  for (int head = 0; head < params.heads; ++head) {
    const int column = head * params.head_width;
    dst[head] = SerialProduct<kVec>(u + column, v + column, params.head_width);
  }
}

// Whole messages: dst[e] = message(u, v).
template <int kVec, int kLanes>
__global__ void __launch_bounds__(kThreads) EdgeMessages(const __grid_constant__ Params params) {
  const EdgeWork<kLanes> start(params);
  for (int64_t c = start.lane * kVec; c < params.dst.cols; c += kLanes * kVec) {
    EdgeWork<kLanes> work = start;
    const float* target = params.target.data + c;
    TargetTerms<kVec> terms;
    if (work.begin < work.end) terms = {params.message, target + work.row * params.target.stride};
    for (int64_t first = work.begin; first < work.end; first += kAtOnce) {
      Pack<kVec> u[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int64_t source = __ldg(params.adjacency.col + min(first + i, work.end - 1));
        u[i] = LoadReadOnly<kVec>(params.src.data + source * params.src.stride + c);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int64_t edge = first + i;
        if (edge >= work.end) break;
        if (edge >= work.row_end) {
          while (edge >= work.row_end) work.row_end = __ldg(params.adjacency.row_ptr + ++work.row + 1);
          terms = {params.message, target + work.row * params.target.stride};
        }
        Pack<kVec> out;
#pragma unroll
        for (int v = 0; v < kVec; ++v) out.v[v] = terms.Of(u[i].v[v], v);
        StorePack<kVec>(params.dst.data + (edge - work.base) * params.dst.stride + c, out);
      }
    }
  }
}

template <int kLanes>
unsigned Blocks(int64_t edges, const Params& params) {
  const int64_t of_block = int64_t{kThreads / kLanes} * params.group_edges;
  return static_cast<unsigned>((edges + of_block - 1) / of_block);
}

template <int kVec>
void LaunchMessages(const Params& params, int64_t edges, cudaStream_t stream) {
  if (params.dst.cols <= 8 * kVec) {
    EdgeMessages<kVec, 8><<<Blocks<8>(edges, params), kThreads, 0, stream>>>(params);
  } else {
    EdgeMessages<kVec, 32><<<Blocks<32>(edges, params), kThreads, 0, stream>>>(params);
  }
}

// Edges of a warp: a power of two, with enough warps for all multiprocessors.
int WarpEdgesOf(int64_t edges, const GpuLimits& limits) {
  int64_t count = kLeastWarpEdges;
  while (count < kMostWarpEdges && 2 * count * limits.multiprocessors * kWarpsPerMultiprocessor <= edges) count *= 2;
  return static_cast<int>(count);
}

template <int kVec>
void LaunchProducts(Params params, int64_t edges, cudaStream_t stream) {
  const int packs = (params.head_width + kVec - 1) / kVec;
  const int64_t all = int64_t{packs} * params.heads;
  const int lanes = all <= 4 ? 4 : all <= 8 ? 8 : all <= 16 ? 16 : 32;
  params.lanes_per_head = 1;
  while (params.lanes_per_head < packs && params.lanes_per_head < lanes) params.lanes_per_head *= 2;
  const unsigned blocks = Blocks<32>(edges, params);
  if (packs > 32) {
    EdgeProducts<kVec, 32, 2><<<blocks, kThreads, 0, stream>>>(params);
  } else if (lanes == 32) {
    EdgeProducts<kVec, 32, 1><<<blocks, kThreads, 0, stream>>>(params);
  } else if (lanes == 16) {
    EdgeProducts<kVec, 16, 1><<<blocks, kThreads, 0, stream>>>(params);
  } else if (lanes == 8) {
    EdgeProducts<kVec, 8, 1><<<blocks, kThreads, 0, stream>>>(params);
  } else {
    EdgeProducts<kVec, 4, 1><<<blocks, kThreads, 0, stream>>>(params);
  }
}

}  // namespace

cudaError_t LaunchEdgeScores(const EdgeScoresArgs& args, bool tree, const LaunchTarget& target) {
  const EdgeScoresProblem& problem = args.problem;
  if (problem.edges == 0 || args.dst.cols == 0) return cudaSuccess;
  Params params{args.adjacency, args.src, args.target, args.dst, problem.message, 1, 0, 1, kScoreEdges};
  const bool reads_target = problem.dot || problem.message != Message::kSource;
  const bool packs = InPacks(args.src) && (!reads_target || InPacks(args.target));
  if (problem.dot) {
    params.heads = static_cast<int>(problem.heads);
    params.head_width = static_cast<int>(problem.width / problem.heads);
    const bool in_packs = packs && params.head_width % 4 == 0;
    if (!tree) {
      const unsigned blocks = Blocks<32>(problem.edges, params);
      in_packs ? EdgeProductsSerial<4><<<blocks, kThreads, 0, target.stream>>>(params)
               : EdgeProductsSerial<1><<<blocks, kThreads, 0, target.stream>>>(params);
    } else {
      params.group_edges = WarpEdgesOf(problem.edges, target.limits);
      in_packs ? LaunchProducts<4>(params, problem.edges, target.stream)
               : LaunchProducts<1>(params, problem.edges, target.stream);
    }
  } else {
    packs&& InPacks(args.dst) && problem.width % 4 == 0 ? LaunchMessages<4>(params, problem.edges, target.stream)
                                                        : LaunchMessages<1>(params, problem.edges, target.stream);
  }
  return cudaGetLastError();
}

}  // namespace vicinal::cuda
