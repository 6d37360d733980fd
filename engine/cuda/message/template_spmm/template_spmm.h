// SPDX-License-Identifier: Apache-2.0
// Launchers of generalised aggregation, without a message MLP (template_spmm.cu; with features of edges:
// featured_rows.cu) and with one (message_mlp.cu), free of device code.
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

inline PieceScratch MessageScratch(const MessageReduceProblem& problem) {
  const int64_t width = problem.out_width();
  return PieceScratch(problem.edges, kMessageUnit, width,
                      problem.num_layers > 0 ? 1 : (width + kMinMessageTile - 1) / kMinMessageTile);
}

// Shared memory of message_mlp: the messages of a tile of edges before and after a layer, in two buffers that layers
// alternate between, and the partial result of the current row.
struct MessageTile {
  int64_t first_floats = 0, second_floats = 0;  // per edge
  int64_t out_width = 0;

  explicit MessageTile(const MessageReduceProblem& problem)
      : first_floats(problem.width), out_width(problem.out_width()) {
    for (int l = 0; l < problem.num_layers; ++l) {
      int64_t& floats = l % 2 == 0 ? second_floats : first_floats;
      floats = std::max(floats, problem.out_widths[l]);
    }
  }
  // Padded by four edges, so that columns begin in different banks.
  int64_t Bytes(int64_t edges) const {
    return ((edges + 4) * (first_floats + second_floats) + 2 * out_width) * static_cast<int64_t>(sizeof(float));
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
// REQUIRES: num_layers > 0, MessageTile(args.problem).Bytes(kSmallMessageTile) <= SmallTileBytes(target.limits).
cudaError_t LaunchMessageMlp(const MessageReduceArgs& args, const LaunchTarget& target, void* scratch);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_MESSAGE_TEMPLATE_SPMM_TEMPLATE_SPMM_H_
