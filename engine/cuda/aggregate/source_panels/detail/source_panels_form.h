// SPDX-License-Identifier: Apache-2.0
// Source panels from their flat form (kernels/layout_codec.h).
#ifndef VICINAL_ENGINE_CUDA_AGGREGATE_SOURCE_PANELS_DETAIL_SOURCE_PANELS_FORM_H_
#define VICINAL_ENGINE_CUDA_AGGREGATE_SOURCE_PANELS_DETAIL_SOURCE_PANELS_FORM_H_

#include "engine/base/status.h"
#include "engine/base/thread_pool.h"
#include "engine/cuda/aggregate/source_panels/source_panels.h"
#include "engine/kernels/layout_codec.h"

namespace vicinal::cuda {

// Reads panels of that shape; of `adjacency` row_ptr is read, in host memory, and whether it has values. DATA_LOSS
// unless every panel is in one piece, every warp's steps lie within the stream, every entry names a source of its panel
// or of the adjacency, and every row has as many edges as the adjacency's.
StatusOr<SourcePanels> ReadSourcePanels(const LayoutInput& input, const CsrView& adjacency, const PanelShape& shape,
                                        ThreadPool& pool);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_AGGREGATE_SOURCE_PANELS_DETAIL_SOURCE_PANELS_FORM_H_
