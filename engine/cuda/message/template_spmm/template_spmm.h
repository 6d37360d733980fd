// SPDX-License-Identifier: Apache-2.0
// Launchers of generalised aggregation, without a message MLP (template_spmm.cu; with features of edges:
// featured_rows.cu), with one (message_mlp.cu), and of messages of other forms (edge_messages.cu), free of device code.
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
inline constexpr int64_t kMinMessageTile = 8;  // columns, of template_spmm

// Messages that are more than an activation of a sum: gated ones, mixtures, and those weighted by a softmax.
inline bool HasForm(const MessageReduceProblem& problem) {
  return problem.form != MessageForm::kPlain || problem.softmax;
}

inline constexpr int64_t kFormColumns = 64;  // of the result, per block of edge_messages

inline PieceScratch MessageScratch(const MessageReduceProblem& problem) {
  const int64_t width = problem.out_width(), floats = problem.softmax ? 3 : 1;  // of a row's total, per column
  const int64_t tile = HasForm(problem) ? kFormColumns : problem.num_layers > 0 ? width : kMinMessageTile;
  return PieceScratch(problem.edges, kMessageUnit, floats * width, (width + tile - 1) / std::max<int64_t>(tile, 1));
}

// Shared memory of message_mlp and edge_messages: a tile of edges' numbers before and after a layer, in two buffers
// that layers alternate between, and the totals of the current row (edge_tiles.cuh). EdgeConv: messages, before and
// after each layer. Gated and plain messages: what the features add to them, and features. Mixtures: features, before
// and after each layer, then messages.
struct MessageTile {
  int64_t columns = 0;                          // of the result, per block
  int64_t first_floats = 0, second_floats = 0;  // per edge
  int64_t total_floats = 1;                     // per column
  int64_t edge_bytes = 0;                       // for the place of each edge's features

  explicit MessageTile(const MessageReduceProblem& problem) : columns(problem.out_width()) {
    const bool mixture = problem.form == MessageForm::kMixture;
    first_floats = problem.num_layers > 0 ? problem.width : 0;
    if (HasForm(problem)) {
      columns = std::min(columns, kFormColumns);
      first_floats = mixture ? problem.edge_width : problem.form == MessageForm::kGated ? 2 * columns : columns;
      second_floats = mixture ? 0 : problem.edge_width;
      total_floats = problem.softmax ? 3 : 1;
      edge_bytes = sizeof(const float*);
    }
    for (int l = 0; l < problem.num_layers; ++l) Widen(l + 1, problem.out_widths[l]);
    if (mixture) Widen(problem.num_layers + 1, columns);
  }
  // Padded by four edges, so that columns begin in different banks.
  int64_t Bytes(int64_t edges) const {
    const int64_t floats = (edges + 4) * (first_floats + second_floats) + 2 * total_floats * columns;
    return floats * static_cast<int64_t>(sizeof(float)) + edges * edge_bytes;
  }

 private:
  // Buffer `number`, counted as layers take turns, holds `floats` per edge.
  void Widen(int number, int64_t floats) {
    int64_t& has = number % 2 == 0 ? first_floats : second_floats;
    has = std::max(has, floats);
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
// REQUIRES: num_layers == 0, edge_width == 0.
cudaError_t LaunchMessageRows(const MessageReduceArgs& args, const MessageRowsPart& part, const LaunchTarget& target,
                              void* scratch);
// With features of edges. REQUIRES: edge_width > 0, num_layers == 0.
cudaError_t LaunchFeaturedMessages(const MessageReduceArgs& args, const LaunchTarget& target, void* scratch);
// REQUIRES: num_layers > 0, !HasForm(args.problem), MessageTile(args.problem).Bytes(kSmallMessageTile) <=
// SmallTileBytes(target.limits).
cudaError_t LaunchMessageMlp(const MessageReduceArgs& args, const LaunchTarget& target, void* scratch);
// REQUIRES: HasForm(args.problem), layers only of mixtures; the same for its MessageTile.
cudaError_t LaunchEdgeMessages(const MessageReduceArgs& args, const LaunchTarget& target, void* scratch);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_MESSAGE_TEMPLATE_SPMM_TEMPLATE_SPMM_H_
