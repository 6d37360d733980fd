// SPDX-License-Identifier: Apache-2.0
// How long rows are cut into pieces, without preparing the graph. With a unit of `unit` edges, a row of fewer than 2 *
// unit edges is one item of work. A longer row is cut, from its first edge on, into pieces of equal length; the last
// one may be shorter. The length is a multiple of the unit near the square root of the row's length, so that neither a
// piece nor the sum over all pieces is long. The cuts depend on the row alone, so the same row in another graph (a
// receptive field) is evaluated in the same order. The edge numbers of every piece contain a multiple of the unit; the
// first of these multiples is the piece's cell. So cells number the pieces of all rows without a list: the item of work
// `cell` finds its row by a search in row_ptr.
#ifndef VICINAL_ENGINE_CUDA_COMMON_ROW_PIECES_H_
#define VICINAL_ENGINE_CUDA_COMMON_ROW_PIECES_H_

#include <cstddef>
#include <cstdint>

#include "engine/cuda/common/alignment.h"
#include "engine/cuda/common/launch.h"

namespace vicinal::cuda {

// Scratch memory of a kernel that cuts rows: a partial result of `stride` floats per cell, then tickets if those of the
// context are too few.
struct PieceScratch {
  int64_t cells = 0;
  int64_t stride = 0;
  int64_t tickets = 0;  // in scratch; 0 if the context has enough

  PieceScratch(int64_t edges, int64_t unit, int64_t floats_per_cell, int64_t max_tiles)
      : cells(edges < 2 * unit ? 0 : (edges + unit - 1) / unit), stride(PackedStride(floats_per_cell)) {
    if (cells * max_tiles > kContextTickets) tickets = cells * max_tiles;
  }
  size_t bytes() const { return static_cast<size_t>(cells * stride + tickets) * sizeof(float); }
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMMON_ROW_PIECES_H_
