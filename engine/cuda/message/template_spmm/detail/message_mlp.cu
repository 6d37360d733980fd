// SPDX-License-Identifier: Apache-2.0
// template_spmm with a message MLP (FeatGraph's MLP aggregation, Hu et al., SC'20, section III; EdgeConv).
//
// Idea. Blocks of edges in shared memory (edge_tiles.cuh): the messages of u and v are put there, layers alternate
// between two buffers, and nothing of the size of the edges leaves the block. Bound by arithmetic: edges * sum of in *
// out multiply-adds. Traffic: edges * 4 * width bytes of gather. Order of evaluation: that of edge_tiles.cuh.
#include <cstdint>

#include "engine/cuda/message/template_spmm/detail/edge_tiles.cuh"

namespace vicinal::cuda {
namespace {

struct MlpMessages {
  template <int kTile>
  __device__ static const float* Messages(const EdgeTileParams& params, const EdgeTileMemory<kTile>& memory,
                                          const EdgeRun& run, int64_t row, int64_t base, int edges) {
    FindEdges(params.args.adjacency, memory, run, row, base, edges);
    __syncthreads();
    Load(params, memory, run, base, edges);
    __syncthreads();
    return memory.buffer[ApplyLayers(params, memory, params.args.problem.width)];
  }

  // Messages before the layers, into buffer 0.
  template <int kTile>
  __device__ static void Load(const EdgeTileParams& params, const EdgeTileMemory<kTile>& memory, const EdgeRun& run,
                              int64_t base, int edges) {
    const MessageReduceArgs& args = params.args;
    const CsrView& adjacency = args.adjacency;
    ForEachTileEdge<kTile>([&](int edge, int first) {
      const bool valid = edge < edges;
      const float* u = args.src.data + (valid ? memory.source[edge] * args.src.stride : 0);
      const int64_t target = valid ? run.first + memory.row[edge] : 0;
      const float weight = valid && adjacency.value != nullptr ? __ldg(adjacency.value + base + edge) : 1.0f;
#pragma unroll 4
      for (int64_t c = first; c < args.problem.width; c += kColumnStep) {
        float m = 0.0f;
        if (valid) {
          const TargetTerms<1> terms(args.problem.message, args.target.data + target * args.target.stride + c);
          m = Activate(args.activation, terms.Of(__ldg(u + c), 0) * weight);
        }
        memory.buffer[0][c * memory.kStride + edge] = m;
      }
    });
  }
};

template <int kTile>
cudaError_t Launch(const EdgeTileParams& params, const MessageTile& tile, const LaunchTarget& target) {
  const int64_t bytes = tile.Bytes(kTile);
  return IsExtreme(params.args.problem.reduce)
             ? LaunchEdgeTiles<MlpMessages, kTile, PlainTotal<true>>(params, bytes, target)
             : LaunchEdgeTiles<MlpMessages, kTile, PlainTotal<false>>(params, bytes, target);
}

}  // namespace

cudaError_t LaunchMessageMlp(const MessageReduceArgs& args, const LaunchTarget& target, void* scratch) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  const MessageTile tile(args.problem);
  EdgeTileParams params;
  const cudaError_t error = SetEdgeTileParams(args, tile, target, scratch, &params);
  if (error != cudaSuccess) return error;
  return tile.Bytes(kLargeMessageTile) <= LargeTileBytes(target.limits)
             ? Launch<kLargeMessageTile>(params, tile, target)
             : Launch<kSmallMessageTile>(params, tile, target);
}

}  // namespace vicinal::cuda
