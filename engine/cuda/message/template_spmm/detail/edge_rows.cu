// SPDX-License-Identifier: Apache-2.0
// template_spmm for messages with features of edges, gated messages and sums weighted by a softmax, without a message
// network (GINEConv, CGConv, ResGatedGraphConv, GENConv): m = activation((message(u, v) + W e + b) w), or
// gate(first half) * activation(second half).
//
// Idea. Messages are made in registers (edge_rows.cuh). Features go to shared memory of the warp, as every column needs
// them, 16 at a time, so that their number is not limited; the rows of W of the first 16 to that of the block, while it
// finds its edges. A load of 4 columns of a row of W serves all edges of a lane. Order of evaluation: u + v, then b,
// then products of features, ascending; then that of edge_rows.cuh. Traffic: edges * (4 + 4 weighted + 4 * columns of u
// + 4 * A) bytes of gather, features once for every 64 columns; rows * 8 * width for targets and results.
#include <cstdint>

#include "engine/cuda/message/template_spmm/detail/edge_rows.cuh"

namespace vicinal::cuda {
namespace {

constexpr int kStaged = 16;           // features of an edge at a time
constexpr int kLargestTile = 64;      // columns
constexpr int kStride = kStaged + 4;  // of an edge's: edges of several groups of lanes begin in different banks

// Starts copying features [first, first + count) of `edges` edges into shared memory.
template <class L>
__device__ inline void CopyFeatures(const RowParams& params, const RowWork<L>& work, int edges, int first, int count) {
  float* const staged = work.own_memory;
  if (params.access != Access::kElements) {
    constexpr int kParts = kStaged / 4;
#pragma unroll
    for (int i = 0; i < (L::kStep * kParts + 31) / 32; ++i) {
      const int item = i * 32 + work.lane, edge = item / kParts, a = item % kParts * 4;
      if (edge < edges && a < count)
        CopyAsync<16>(staged + edge * kStride + a, work.memory.features[edge] + first + a, 16);
    }
  } else {
#pragma unroll 1
    for (int item = work.lane; item < edges * kStaged; item += 32) {
      const int edge = item / kStaged, a = item % kStaged;
      if (a < count) CopyAsync<4>(staged + edge * kStride + a, work.memory.features[edge] + first + a, 4);
    }
  }
  CommitCopies();
}

// u and v of a lane's edges.
template <class L, int kHalves>
__device__ inline void LoadNodes(const MessageReduceArgs& args, const RowWork<L>& work,
                                 float (&z)[kHalves][L::kCount]) {
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    const float* const u = args.src.data + half * args.problem.width + work.column;
#pragma unroll
    for (int k = 0; k < L::kMine; ++k) {
      const int64_t source = work.memory.source[work.EdgeOf(k)];
      const Pack<L::kVec> x = LoadPlain<L::kVec>(u + source * args.src.stride);
#pragma unroll
      for (int v = 0; v < L::kVec; ++v) z[half][k * L::kVec + v] = x.v[v];
    }
  }
  const Message message = args.problem.message;
  if (message == Message::kSource) return;
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    if (half * args.problem.width >= args.target.cols) break;
    const float* const v = args.target.data + half * args.problem.width + work.column;
#pragma unroll
    for (int k = 0; k < L::kMine; ++k) {
      const int64_t row = work.memory.row[work.EdgeOf(k)];
      const Pack<L::kVec> y = LoadPlain<L::kVec>(v + row * args.target.stride);
#pragma unroll
      for (int i = 0; i < L::kVec; ++i) {
        float& x = z[half][k * L::kVec + i];
        x = message == Message::kMultiply ? x * y.v[i] : message == Message::kAdd ? x + y.v[i] : x - y.v[i];
      }
    }
  }
}

// Starts copying the rows of W of the first features into the block's shared memory, [kStaged][halves][kTile].
template <class L, int kHalves>
__device__ inline void CopyWeights(const MessageReduceArgs& args, const RowWork<L>& work) {
  constexpr int kPacks = L::kTile / L::kVec;
  const int rows = min(static_cast<int>(args.edge.width), kStaged) * kHalves;
  for (int item = threadIdx.x; item < rows * kPacks; item += kRowThreads) {
    const int row = item / kPacks, column = item % kPacks * L::kVec;
    if (work.first_column + column >= args.dst.cols) continue;
    const float* const from = args.edge_weight + row * args.problem.width + work.first_column + column;
    CopyAsync<L::kVec * sizeof(float)>(work.block_memory + row * L::kTile + column, from, L::kVec * sizeof(float));
  }
  CommitCopies();
}

// Adds `count` staged features times their rows of W, from `weight` on: of a lane's first column, halves `step` apart.
template <bool kShared, class L, int kHalves>
__device__ inline void AddProducts(const RowWork<L>& work, const float* weight, int64_t step, int count,
                                   float (&z)[kHalves][L::kCount]) {
  constexpr int kAtOnce = L::kMine > 4 ? 2 : 4;  // features
  const float* const staged = work.own_memory + work.group * kStride;
#pragma unroll 1
  for (int a = 0; a < count; a += kAtOnce) {
    Pack<kAtOnce> x[L::kMine];
#pragma unroll
    for (int k = 0; k < L::kMine; ++k) x[k] = LoadShared<kAtOnce>(staged + k * L::kGroups * kStride + a);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (a + i >= count) break;
#pragma unroll
      for (int half = 0; half < kHalves; ++half, weight += step) {
        const Pack<L::kVec> w = kShared ? LoadShared<L::kVec>(weight) : LoadReadOnly<L::kVec>(weight);
#pragma unroll
        for (int k = 0; k < L::kMine; ++k) {
#pragma unroll
          for (int v = 0; v < L::kVec; ++v)
            z[half][k * L::kVec + v] = fmaf(x[k].v[i], w.v[v], z[half][k * L::kVec + v]);
        }
      }
    }
  }
}

// Adds what features give. The first kStaged ones are on their way.
template <class L, int kHalves>
__device__ inline void AddFeatures(const RowParams& params, const RowWork<L>& work, int edges,
                                   float (&z)[kHalves][L::kCount]) {
  const MessageReduceArgs& args = params.args;
  const int width = static_cast<int>(args.edge.width);
  if (args.edge_weight == nullptr) {
#pragma unroll
    for (int i = 0; i < kHalves * L::kCount; ++i) {
      const int half = i / L::kCount, k = i % L::kCount / L::kVec, v = i % L::kVec;
      const float* const features = work.memory.features[work.EdgeOf(k)] + half * args.problem.width + work.column;
      z[half][k * L::kVec + v] = __fadd_rn(z[half][k * L::kVec + v], __ldg(features + v));
    }
    return;
  }
  if (args.edge_bias != nullptr) {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      const Pack<L::kVec> b = LoadReadOnly<L::kVec>(args.edge_bias + half * args.problem.width + work.column);
#pragma unroll
      for (int i = 0; i < L::kCount; ++i) z[half][i] = __fadd_rn(z[half][i], b.v[i % L::kVec]);
    }
  }
  AwaitCopies<0>();
  __syncwarp();
  const float* const staged = work.block_memory + work.lane % L::kLanes * L::kVec;
  AddProducts<true>(work, staged, L::kTile, min(width, kStaged), z);
#pragma unroll 1
  for (int first = kStaged; first < width; first += kStaged) {
    __syncwarp();
    CopyFeatures(params, work, edges, first, min(width - first, kStaged));
    AwaitCopies<0>();
    __syncwarp();
    const float* const weight = args.edge_weight + first * kHalves * args.problem.width + work.column;
    AddProducts<false>(work, weight, args.problem.width, min(width - first, kStaged), z);
  }
}

// The functions of these layers in place; others as everywhere.
template <bool kSoftplus, int kCount>
__device__ inline void ActivateAll(const Activation& activation, float (&x)[kCount]) {
  if (activation.kind == ActivationKind::kNone) return;
  if (activation.kind == ActivationKind::kRelu) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = Rectified(x[i]);
  } else if (activation.kind == ActivationKind::kClamp) {
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      x[i] = x[i] < activation.slope ? activation.slope : x[i] > activation.limit ? activation.limit : x[i];
  } else if (activation.kind == ActivationKind::kSigmoid) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = __fdividef(1.0f, 1.0f + expf(-x[i]));
  } else if (kSoftplus && activation.kind == ActivationKind::kSoftplus) {
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      x[i] = x[i] > activation.slope ? x[i] : Rectified(x[i]) + log1pf(expf(-fabsf(x[i])));
  } else {
    ApplyRareActivation(activation, x);
  }
}

template <bool kGated>
struct FunctionMaker {
  static constexpr int kStep = kGated ? 8 : 16;
  static constexpr int kHalves = kGated ? 2 : 1;

  __host__ __device__ static int BlockFloats(const RowParams&) { return kStaged * kHalves * kLargestTile; }
  __host__ __device__ static int Floats(const RowParams&) { return kStep * kStride; }
  template <class L>
  __device__ static void Begin(const RowParams& params, const RowWork<L>& work) {
    static_assert(L::kTile <= kLargestTile);
    const MessageReduceArgs& args = params.args;
    if (args.edge.width > 0 && args.edge_weight != nullptr) CopyWeights<L, kHalves>(args, work);
  }

  template <class L>
  __device__ static void Make(const RowParams& params, const RowWork<L>& work, int entry, int base, int edges) {
    const MessageReduceArgs& args = params.args;
    FindRowEdges(params, work, entry, base, edges);
    const bool terms = args.edge.width > 0 && args.edge_weight != nullptr;
    if (terms) CopyFeatures(params, work, edges, 0, min(static_cast<int>(args.edge.width), kStaged));
    float z[kHalves][L::kCount];
    LoadNodes(args, work, z);
    if (args.edge.width > 0) AddFeatures(params, work, edges, z);
    float(&values)[L::kCount] = z[kHalves - 1];
    if (!kGated && args.adjacency.value != nullptr) Weigh(args, work, entry, base, edges, values);
    ActivateAll<kGated>(args.activation, values);
    if constexpr (kGated) {
      ActivateAll<kGated>(args.gate, z[0]);
#pragma unroll
      for (int i = 0; i < L::kCount; ++i) values[i] = __fmul_rn(z[0][i], values[i]);
    }
    StoreMessages(work, values);
  }

 private:
  template <class L>
  __device__ static void Weigh(const MessageReduceArgs& args, const RowWork<L>& work, int entry, int base, int edges,
                               float (&values)[L::kCount]) {
#pragma unroll
    for (int k = 0; k < L::kMine; ++k) {
      const int edge = base + min(work.EdgeOf(k), edges - 1);
      const float weight = __ldg(args.adjacency.value + work.table.shift[work.table.EntryOf(edge, entry)] + edge);
#pragma unroll
      for (int v = 0; v < L::kVec; ++v) values[k * L::kVec + v] = __fmul_rn(values[k * L::kVec + v], weight);
    }
  }
};

// Tiles of half the columns: where a result has no more, and where those of kLargestTile would leave most of the device
// without a block. Each of the many blocks then has half the messages to make, one after the other.
bool HalvesTiles(const RowParams& params, const LaunchTarget& target) {
  const MessageReduceArgs& args = params.args;
  if (args.dst.cols <= kFeaturedTile) return true;
  const int64_t blocks = (args.adjacency.nnz + args.adjacency.rows) / params.keys_per_block;
  return blocks * ((args.dst.cols + kLargestTile - 1) / kLargestTile) <= int64_t{2} * target.limits.multiprocessors;
}

template <bool kGated, class Total>
cudaError_t LaunchColumns(const RowParams& params, bool packs, const LaunchTarget& target) {
  using Maker = FunctionMaker<kGated>;
  constexpr int kStep = Maker::kStep;
  if (!packs) return LaunchRows<RowLayout<1, kFeaturedTile, kStep, Total>, Maker>(params, target);
  return HalvesTiles(params, target) ? LaunchRows<RowLayout<4, kFeaturedTile / 4, kStep, Total>, Maker>(params, target)
                                     : LaunchRows<RowLayout<4, kLargestTile / 4, kStep, Total>, Maker>(params, target);
}

template <bool kGated>
cudaError_t LaunchTotal(const RowParams& params, bool packs, const LaunchTarget& target) {
  if (params.args.problem.softmax) return LaunchColumns<kGated, SoftmaxTotal>(params, packs, target);
  return IsExtreme(params.args.problem.reduce) ? LaunchColumns<kGated, PlainTotal<true>>(params, packs, target)
                                               : LaunchColumns<kGated, PlainTotal<false>>(params, packs, target);
}

bool InPacks(const MessageReduceArgs& args) {
  const bool rows = vicinal::cuda::InPacks(args.src) &&
                    (args.problem.message == Message::kSource || vicinal::cuda::InPacks(args.target));
  return rows && args.problem.width % 4 == 0 && vicinal::cuda::InPacks(args.edge_weight, 0, sizeof(float), 4) &&
         vicinal::cuda::InPacks(args.edge_bias, 0, sizeof(float), 4);
}

}  // namespace

cudaError_t LaunchEdgeRows(const MessageReduceArgs& args, const LaunchTarget& target, void* scratch) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  RowParams params;
  if (const cudaError_t error = SetRowParams(args, target, scratch, &params); error != cudaSuccess) return error;
  return args.problem.form == MessageForm::kGated ? LaunchTotal<true>(params, InPacks(args), target)
                                                  : LaunchTotal<false>(params, InPacks(args), target);
}

}  // namespace vicinal::cuda
