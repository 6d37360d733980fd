// SPDX-License-Identifier: Apache-2.0
// Launchers of generalised aggregation: plain messages (template_spmm.cu), those with features of edges, gates or a
// softmax (edge_rows.cu), with a message MLP (message_mlp.cu), mixtures (edge_mixtures.cu), and products of
// coefficients and rows (edge_outer.cu), free of device code.
#ifndef VICINAL_ENGINE_CUDA_MESSAGE_TEMPLATE_SPMM_TEMPLATE_SPMM_H_
#define VICINAL_ENGINE_CUDA_MESSAGE_TEMPLATE_SPMM_TEMPLATE_SPMM_H_

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/cuda/common/gpu_limits.h"
#include "engine/cuda/common/launch.h"
#include "engine/cuda/common/row_pieces.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// The unit, in edges, for cutting long rows (row_pieces.h).
inline constexpr int64_t kMessageUnit = 128;
inline constexpr int64_t kFeaturedUnit = 64;   // of edge_rows, edge_mixtures and edge_outer
inline constexpr int64_t kMinMessageTile = 8;  // columns, of template_spmm

// Which kernel makes the messages.
enum class MessageMaker {
  kRows,      // template_spmm.cu
  kEdgeRows,  // edge_rows.cu
  kNetwork,   // message_mlp.cu
  kMixture,   // edge_mixtures.cu
  kOuter,     // edge_outer.cu
};
inline MessageMaker MakerOf(const MessageReduceProblem& problem) {
  if (problem.form == MessageForm::kMixture) return MessageMaker::kMixture;
  if (problem.form == MessageForm::kOuter) return MessageMaker::kOuter;
  if (problem.num_layers > 0) return MessageMaker::kNetwork;
  const bool plain = problem.form == MessageForm::kPlain && !problem.softmax && problem.edge_width == 0;
  return plain ? MessageMaker::kRows : MessageMaker::kEdgeRows;
}

inline constexpr int kFeaturedTile = 32;  // columns of the result per block of edge_rows and edge_mixtures, at least

// Coefficients of a block of edge_outer, at most, and the number of its blocks for each item of work, at most.
inline constexpr int kOuterParts = 8;
inline int64_t OuterTiles(const MessageReduceProblem& problem) {
  return (problem.width + kFeaturedTile - 1) / kFeaturedTile *
         ((problem.coefficients() + kOuterParts - 1) / kOuterParts);
}

inline PieceScratch MessageScratch(const MessageReduceProblem& problem) {
  const int64_t width = problem.out_width(), floats = problem.softmax ? 3 : 1;  // of a row's total, per column
  int64_t tile = kMinMessageTile, unit = kMessageUnit;
  switch (MakerOf(problem)) {
    case MessageMaker::kRows:
      break;
    case MessageMaker::kNetwork:
      tile = width;
      break;
    case MessageMaker::kEdgeRows:
    case MessageMaker::kMixture:
      tile = kFeaturedTile, unit = kFeaturedUnit;
      break;
    case MessageMaker::kOuter:
      return PieceScratch(problem.edges, kFeaturedUnit, width, OuterTiles(problem));
  }
  return PieceScratch(problem.edges, unit, floats * width, (width + tile - 1) / std::max<int64_t>(tile, 1));
}

// Shared memory of message_mlp: a tile of edges' messages before and after a layer, in two buffers that layers
// alternate between, and the totals of the current row (edge_tiles.cuh).
struct MessageTile {
  int64_t columns = 0;                          // of the result
  int64_t first_floats = 0, second_floats = 0;  // per edge

  explicit MessageTile(const MessageReduceProblem& problem)
      : columns(problem.out_width()), first_floats(problem.width) {
    for (int l = 0; l < problem.num_layers; ++l) {
      int64_t& floats = l % 2 == 0 ? second_floats : first_floats;
      floats = std::max(floats, problem.out_widths[l]);
    }
  }
  // Padded by four edges, so that columns begin in different banks.
  int64_t Bytes(int64_t edges) const {
    return ((edges + 4) * (first_floats + second_floats) + 2 * columns) * static_cast<int64_t>(sizeof(float));
  }
};
inline constexpr int kLargeMessageTile = 64, kSmallMessageTile = 16;  // edges
// Shared memory that tiles may use next to static shared memory. Large tiles leave room for two blocks per
// multiprocessor; small ones may use all that a block may have.
inline constexpr int64_t kMessageStaticBytes = 1 << 10;
inline int64_t LargeTileBytes(const GpuLimits& limits) {
  return limits.multiprocessor_shared_bytes / 2 - kSystemSharedBytes - kMessageStaticBytes;
}
inline int64_t SmallTileBytes(const GpuLimits& limits) { return limits.block_shared_bytes - kMessageStaticBytes; }

// Shared memory of edge_mixtures next to static shared memory: numbers of a warp's edges, features first, before and
// after a layer of the network that makes coefficients.
struct MixtureMemory {
  static constexpr int64_t kWarps = 4;
  int strides[2] = {};  // floats of an edge in each buffer; padded, so that edges begin in different banks

  explicit MixtureMemory(const MessageReduceProblem& problem) {
    Widen(0, problem.edge_width);
    Widen(1, problem.gaussians);
    for (int l = 0; l < problem.num_layers; ++l) Widen((l + 1) % 2, problem.out_widths[l]);
  }
  int64_t Bytes(int64_t edges) const {
    return kWarps * edges * (int64_t{strides[0]} + strides[1]) * static_cast<int64_t>(sizeof(float));
  }

 private:
  void Widen(int buffer, int64_t floats) {
    strides[buffer] = std::max(strides[buffer], static_cast<int>(RoundUp(floats, 4) + 4));
  }
};
inline constexpr int kLargeMixtureStep = 16, kSmallMixtureStep = 4;  // edges of a warp at a time
inline constexpr int64_t kMixtureStaticBytes = 40 << 10;
inline int64_t LargeMixtureBytes(const GpuLimits& limits) {
  return limits.multiprocessor_shared_bytes / 2 - kSystemSharedBytes - kMixtureStaticBytes;
}
inline int64_t SmallMixtureBytes(const GpuLimits& limits) { return limits.block_shared_bytes - kMixtureStaticBytes; }

// What aggregate has in addition to a reduction of messages. By default, nothing.
struct MessageRowsPart {
  const float* src_scale = nullptr;  // a factor per source, if the adjacency has no values
  float self_scale = 0.0f;           // of the row's own source, added after the reduction
  // Reduced messages of further edges, which are not in the adjacency [R, D]; negated for minima. Null: no such edges.
  const float* carried = nullptr;
  int64_t carried_stride = 0;
  const int64_t* degree_ptr = nullptr;  // row_ptr of all edges, with `carried`
};

// For all launchers, `scratch` has MessageScratch(args.problem).bytes() bytes.
// REQUIRES: MakerOf(args.problem) is the launcher's.
cudaError_t LaunchMessageRows(const MessageReduceArgs& args, const MessageRowsPart& part, const LaunchTarget& target,
                              void* scratch);
cudaError_t LaunchEdgeRows(const MessageReduceArgs& args, const LaunchTarget& target, void* scratch);
// REQUIRES: no features, !args.problem.softmax, MessageTile(args.problem).Bytes(kSmallMessageTile) <=
// SmallTileBytes(target.limits).
cudaError_t LaunchMessageMlp(const MessageReduceArgs& args, const LaunchTarget& target, void* scratch);
// REQUIRES: MixtureMemory(args.problem).Bytes(kSmallMixtureStep) <= SmallMixtureBytes(target.limits).
cudaError_t LaunchEdgeMixtures(const MessageReduceArgs& args, const LaunchTarget& target, void* scratch);
// REQUIRES: OuterTiles(args.problem) <= kMaxOuterTiles.
cudaError_t LaunchEdgeOuter(const MessageReduceArgs& args, const LaunchTarget& target, void* scratch);
inline constexpr int64_t kMaxOuterTiles = (1 << 16) - 1;  // a grid's second dimension

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_MESSAGE_TEMPLATE_SPMM_TEMPLATE_SPMM_H_
