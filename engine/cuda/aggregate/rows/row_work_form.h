// SPDX-License-Identifier: Apache-2.0
// The flat form of work lists (kernels/layout_codec.h): of binned_rows and length_sorted_rows.
#ifndef VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_ROW_WORK_FORM_H_
#define VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_ROW_WORK_FORM_H_

#include <cstdint>
#include <functional>

#include "engine/base/status.h"
#include "engine/cuda/aggregate/rows/row_work.h"
#include "engine/kernels/layout_codec.h"

namespace vicinal::cuda {

// How the kernel of a list cuts rows.
struct RowCuts {
  int64_t part = 0;   // longer rows are cut
  int64_t block = 0;  // items up to this length are bundled, or short; longer ones have a block each
  // The first edge of part `index` of a row of `count` edges in `parts` parts; with index == parts: count.
  std::function<int64_t(int64_t count, int64_t parts, int64_t index)> begin;
};

FlatLayout FlattenRowWork(const RowWorkLayout& work);

// Reads a list for an adjacency with these borders of rows (columns are not looked at). DATA_LOSS unless every row is
// worked on exactly once, in the parts that `cuts` gives, and blocks and bundles have what they have room for.
StatusOr<RowWork> ReadRowWork(const LayoutInput& input, const CsrView& borders, const RowCuts& cuts);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_ROW_WORK_FORM_H_
