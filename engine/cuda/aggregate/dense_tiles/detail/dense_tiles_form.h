// SPDX-License-Identifier: Apache-2.0
// The flat form of dense tiles (kernels/layout_codec.h), without the work lists, which follow from the borders of rows.
#ifndef VICINAL_ENGINE_CUDA_AGGREGATE_DENSE_TILES_DETAIL_DENSE_TILES_FORM_H_
#define VICINAL_ENGINE_CUDA_AGGREGATE_DENSE_TILES_DETAIL_DENSE_TILES_FORM_H_

#include <cstdint>

#include "engine/base/status.h"
#include "engine/cuda/aggregate/dense_tiles/dense_tiles.h"
#include "engine/kernels/layout_codec.h"

namespace vicinal::cuda {

FlatLayout FlattenDenseTiles(const DenseTilesLayout& layout);

// Reads tiles of that `adjacency`, in memory of any device. DATA_LOSS unless every index is in its range, every tile is
// in one piece of its rows, and masks and remaining edges are as many as the edges.
StatusOr<HostDenseTiles> ReadDenseTiles(const LayoutInput& input, const CsrView& adjacency, int64_t threshold);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_AGGREGATE_DENSE_TILES_DETAIL_DENSE_TILES_FORM_H_
