// SPDX-License-Identifier: Apache-2.0
// template_sddmm: FeatGraph's generalised SDDMM (Hu et al., SC'20, section III). Per edge, it computes the dot product
// of u and v for each head, or a whole message.
//
// Idea. As in FeatGraph on a GPU, adjacent lanes cover adjacent features (feature-parallel threads), and products are a
// tree reduction over lanes, here by shuffles. A group of lanes takes 32 adjacent edges (128 on graphs of millions),
// whatever rows they belong to, so work is even without preparation. The target's part stays in registers until the row
// changes, which halves the traffic in most graphs. Four source rows are loaded before the first is used. As many heads
// are computed at once as there are lanes; a head starts at a multiple of its lanes, rounded up to a power of two. To
// measure the value of the tree, there is also a kernel in which a thread computes an edge with all its columns, as in
// Gunrock (EdgeProductsSerial). Each result depends on its own edge alone, in one order of evaluation. Traffic: edges *
// (4 + 4 * width) bytes of gather and edges * 4 * heads (or width) of stores.
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
constexpr int64_t kManyEdges = 1 << 22;

struct Params {
  CsrView adjacency;
  ConstMatrixView src, target;
  MatrixView dst;
  Message message;
  int heads, head_width;
  int lanes_per_head;
  int group_edges;
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
// for a merged tree.
template <int kLanes>
__device__ inline void StoreScores(const Params& params, const EdgeWork<kLanes>& work, int64_t first, int head,
                                   bool has_head, bool adds, float (&part)[kAtOnce]) {
  const unsigned mask = GroupMask<kLanes>();
  if (params.lanes_per_head >= kAtOnce) {
    const TreeSum sum(part, mask, work.lane, params.lanes_per_head);
    if (sum.writes && has_head && first + sum.mine < work.end) {
      StoreScore(params, first + sum.mine - work.base, head, adds, sum.score);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kAtOnce; ++i) {
    if (params.lanes_per_head == 2) part[i] += __shfl_xor_sync(mask, part[i], 1);
    if (has_head && work.lane % params.lanes_per_head == 0 && first + i < work.end) {
      StoreScore(params, first + i - work.base, head, adds, part[i]);
    }
  }
}

// Computes the products of a group's edges, for as many heads as fit its lanes, and for part of their columns. The next
// sources are loaded while the rows of the current ones are in flight.
template <int kVec, int kLanes, int kPacks>
__device__ inline void MultiplyEdges(const Params& params, EdgeWork<kLanes> work,
                                     const HeadPart<kVec, kLanes, kPacks>& part, int head, bool adds) {
  Pack<kVec> v[kPacks];
  part.Load(params, params.target.data + work.row * params.target.stride, v);
  int32_t source[kAtOnce];
#pragma unroll
  for (int i = 0; i < kAtOnce; ++i) source[i] = __ldg(params.adjacency.col + min(work.begin + i, work.end - 1));
  for (int64_t first = work.begin; first < work.end; first += kAtOnce) {
    Pack<kVec> u[kAtOnce][kPacks];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) part.Load(params, params.src.data + source[i] * params.src.stride, u[i]);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      source[i] = __ldg(params.adjacency.col + min(first + kAtOnce + i, work.end - 1));
    }
    float score[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int64_t edge = first + i;
      if (edge < work.end && edge >= work.row_end) {
        while (edge >= work.row_end) work.row_end = __ldg(params.adjacency.row_ptr + ++work.row + 1);
        part.Load(params, params.target.data + work.row * params.target.stride, v);
      }
      score[i] = 0.0f;
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
#pragma unroll
        for (int x = 0; x < kVec; ++x) score[i] = fmaf(u[i][p].v[x], v[p].v[x], score[i]);
      }
    }
    StoreScores(params, work, first, head, part.has_head, adds, score);
  }
}

template <int kVec, int kLanes, int kPacks>
__global__ void __launch_bounds__(kThreads) EdgeProducts(const __grid_constant__ Params params) {
  const EdgeWork<kLanes> work(params);
  if (work.begin >= work.end) return;
  const int at_once = kLanes / params.lanes_per_head;
  for (int head0 = 0; head0 < params.heads; head0 += at_once) {
    const int head = head0 + work.lane / params.lanes_per_head;
    HeadPart<kVec, kLanes, kPacks> part;
    part.step = params.lanes_per_head * kVec;
    part.has_head = head < params.heads;
    part.column = int64_t{head} * params.head_width;
    for (int c0 = 0; c0 < params.head_width; c0 += kPacks * part.step) {
      part.first = c0 + work.lane % params.lanes_per_head * kVec;
      MultiplyEdges<kVec, kLanes, kPacks>(params, work, part, head, c0 > 0);
    }
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

template <int kVec>
void LaunchProducts(Params params, int64_t edges, cudaStream_t stream) {
  const int packs = (params.head_width + kVec - 1) / kVec;
  const int64_t all = int64_t{packs} * params.heads;
  const int lanes = all <= 8 ? 8 : all <= 16 ? 16 : 32;
  params.lanes_per_head = 1;
  while (params.lanes_per_head < packs && params.lanes_per_head < lanes) params.lanes_per_head *= 2;
  if (packs > 32) {
    EdgeProducts<kVec, 32, 4><<<Blocks<32>(edges, params), kThreads, 0, stream>>>(params);
  } else if (lanes == 32) {
    EdgeProducts<kVec, 32, 1><<<Blocks<32>(edges, params), kThreads, 0, stream>>>(params);
  } else if (lanes == 16) {
    EdgeProducts<kVec, 16, 1><<<Blocks<16>(edges, params), kThreads, 0, stream>>>(params);
  } else {
    EdgeProducts<kVec, 8, 1><<<Blocks<8>(edges, params), kThreads, 0, stream>>>(params);
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
    // Finding the first edge's row takes a search. With enough groups, each takes more edges per search.
    if (tree && problem.edges >= kManyEdges) params.group_edges = 4 * kScoreEdges;
    if (!tree) {
      const unsigned blocks = Blocks<32>(problem.edges, params);
      in_packs ? EdgeProductsSerial<4><<<blocks, kThreads, 0, target.stream>>>(params)
               : EdgeProductsSerial<1><<<blocks, kThreads, 0, target.stream>>>(params);
    } else {
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
