// SPDX-License-Identifier: Apache-2.0
// The device side of row_pieces.h: the edges of an item of work, and which piece of a row is stored last. Cost: two
// loads for a whole row, a binary search for a cell, one integer atomic per piece.
#ifndef VICINAL_ENGINE_CUDA_COMMON_ROW_PIECES_CUH_
#define VICINAL_ENGINE_CUDA_COMMON_ROW_PIECES_CUH_

#include <cstdint>

#include "engine/cuda/common/hardware.h"
#include "engine/cuda/common/row_pieces.h"

namespace vicinal::cuda {

// The lanes of this thread's group of kLanes lanes (a power of two).
template <int kLanes>
__device__ inline unsigned GroupMask() {
  if constexpr (kLanes == 32) {
    return kWholeWarp;
  } else {
    return ((1u << kLanes) - 1u) << (threadIdx.x % 32 / kLanes * kLanes);
  }
}

// Edges [begin, end) of `row`. Negative `row`: no work.
struct RowPiece {
  int64_t row = -1;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t row_edges = 0;
  int64_t pieces = 1;      // of the row
  int64_t first_cell = 0;  // of the row's first piece
  int64_t cell_step = 1;   // from one piece's cell to the next one's
  int64_t cell = 0;        // of this piece

  __device__ bool split() const { return pieces > 1; }
};

// Edges per piece of a long row.
__device__ inline int64_t PieceLength(int64_t row_edges, int64_t unit) {
  const int64_t root = static_cast<int64_t>(sqrtf(static_cast<float>(row_edges)));
  return (root + unit - 1) / unit * unit;
}

__device__ inline bool IsLongRow(int64_t row_edges, int64_t unit) { return row_edges >= 2 * unit; }

// The row of `edge`. All lanes of the group search together: each round divides the range by kLanes + 1.
template <int kLanes>
__device__ inline int64_t RowOfEdge(const int64_t* row_ptr, int64_t rows, int64_t edge) {
  const unsigned mask = GroupMask<kLanes>();
  const int lane = threadIdx.x % kLanes;
  int64_t low = 0, high = rows;  // row_ptr[low] <= edge < row_ptr[high]
  while (high - low > 1) {
    const int64_t step = (high - low + kLanes) / (kLanes + 1);
    const int64_t at = min(low + (lane + 1) * step, high);
    const bool below = at < high && __ldg(row_ptr + at) <= edge;
    const int count = __popc(__ballot_sync(mask, below) & mask);
    const int64_t next = low + (count + 1) * step;
    low += count * step;
    high = min(next, high);
  }
  return low;
}

// The same for an edge that is not before row `low`. Fast if it is in one of the kLanes rows from `low` on.
template <int kLanes>
__device__ inline int64_t RowOfLaterEdge(const int64_t* row_ptr, int64_t rows, int64_t low, int64_t edge) {
  const unsigned mask = GroupMask<kLanes>();
  const int64_t at = low + 1 + threadIdx.x % kLanes;
  const int passed = __popc(__ballot_sync(mask, at < rows && __ldg(row_ptr + at) <= edge) & mask);
  return passed < kLanes ? low + passed : RowOfEdge<kLanes>(row_ptr, rows, edge);
}

// The piece of the long row `row` that has the cell `cell`.
__device__ inline RowPiece PieceAt(const int64_t* row_ptr, int64_t unit, int64_t cell, int64_t row) {
  RowPiece piece;
  const int64_t edge = cell * unit;
  const int64_t begin = __ldg(row_ptr + row), end = __ldg(row_ptr + row + 1);
  piece.row_edges = end - begin;
  if (!IsLongRow(piece.row_edges, unit)) return piece;
  const int64_t length = PieceLength(piece.row_edges, unit);
  piece.pieces = max(piece.row_edges / length, int64_t{1});
  const int64_t number = min((edge - begin) / length, piece.pieces - 1);
  piece.first_cell = (begin + unit - 1) / unit;
  piece.cell_step = length / unit;
  piece.cell = cell;
  if (piece.first_cell + number * piece.cell_step != cell) return piece;  // a later multiple of the unit in that piece
  piece.begin = begin + number * length;
  piece.end = number < piece.pieces - 1 ? piece.begin + length : end;
  piece.row = row;
  return piece;
}

// The piece of a long row that has the cell `cell`. To be called by a whole group of kLanes lanes.
template <int kLanes>
__device__ inline RowPiece FindPiece(const int64_t* row_ptr, int64_t rows, int64_t unit, int64_t cell) {
  return PieceAt(row_ptr, unit, cell, RowOfEdge<kLanes>(row_ptr, rows, cell * unit));
}

// A whole row. With unit > 0, no work if the row is long.
__device__ inline RowPiece WholeRow(const int64_t* row_ptr, int64_t unit, int64_t row) {
  RowPiece piece;
  piece.begin = __ldg(row_ptr + row);
  piece.end = __ldg(row_ptr + row + 1);
  piece.row_edges = piece.end - piece.begin;
  if (unit == 0 || !IsLongRow(piece.row_edges, unit)) piece.row = row;
  return piece;
}

// To be called by all lanes of `mask` after they have stored the partial result of their piece. True for the last piece
// of the row that arrives; its lanes then see all partial results of the row. That call resets the ticket.
__device__ inline bool ArrivesLast(int* ticket, int64_t pieces, unsigned mask, bool leader) {
  __threadfence();
  __syncwarp(mask);
  int before = 0;
  if (leader) before = atomicAdd(ticket, 1);
  before = __shfl_sync(mask, before, __ffs(mask) - 1);
  if (before != pieces - 1) return false;
  __threadfence();
  if (leader) *ticket = 0;
  return true;
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMMON_ROW_PIECES_CUH_
