// SPDX-License-Identifier: Apache-2.0
// FeatGraph's hybrid partitioning by degree (Hu et al., SC'20, section III-C). Sources of high out-degree are cut into
// partitions that fit shared memory. Their edges are staged, that is, stored by partition; all other edges are an
// adjacency (the rest). Built on the host, in parallel; the result does not depend on the number of threads.
#ifndef VICINAL_ENGINE_CUDA_PUBLISHED_STAGED_ROWS_DETAIL_STAGED_EDGES_H_
#define VICINAL_ENGINE_CUDA_PUBLISHED_STAGED_ROWS_DETAIL_STAGED_EDGES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/thread_pool.h"
#include "engine/cuda/published/staged_rows/staged_rows.h"
#include "engine/device/device.h"
#include "engine/device/views.h"
#include "engine/kernels/adjacency_layout.h"
#include "engine/kernels/layout_codec.h"

namespace vicinal::cuda {

struct HostStagedEdges {
  std::vector<int32_t> source;  // as in StagedEdges
  std::vector<int32_t> row_ptr;
  std::vector<int32_t> border;
  std::vector<uint16_t> local;
  std::vector<float> value;  // empty: no weights
  std::vector<int64_t> rest_row_ptr;
  std::vector<int32_t> rest_col;
  std::vector<float> rest_value;

  int64_t partitions() const { return static_cast<int64_t>(source.size()) / kStagedSources; }
};

// Stages the sources of at least `min_degree` edges or, if these are too many, those with most edges.
// REQUIRES: fewer than 2^31 edges.
HostStagedEdges BuildStagedEdges(const CsrView& host, int64_t min_degree, ThreadPool& pool);

// Reads the edges of that `adjacency`, in memory of any device, from their flat form. DATA_LOSS unless every index is
// in its range, and staged and remaining edges are as many as the edges.
StatusOr<HostStagedEdges> ReadStagedEdges(const LayoutInput& input, const CsrView& adjacency);

class StagedEdgesLayout final : public AdjacencyLayout {
 public:
  static StatusOr<std::shared_ptr<const StagedEdgesLayout>> Upload(const HostStagedEdges& host, Device& device);
  int64_t size_bytes() const override;
  const StagedEdges& view() const { return view_; }
  FlatLayout Flatten() const;

 private:
  StagedEdges view_;
  Buffer source_, row_ptr_, border_, local_, value_, rest_row_ptr_, rest_col_, rest_value_;
};

int64_t StagedEdgesBytesBound(int64_t rows, int64_t edges);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_PUBLISHED_STAGED_ROWS_DETAIL_STAGED_EDGES_H_
