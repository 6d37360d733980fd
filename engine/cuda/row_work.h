// SPDX-License-Identifier: Apache-2.0
// How the rows of an adjacency are handed to blocks and lanes of the GPU, and in which order the edges of a row are
// added, whoever adds them.
//
// Order. A row is cut into quads of kQuadEdges edges from its own beginning, a quad into four pieces of kPieceEdges.
// Edge j of a piece goes to chain j mod 4; the chains of a piece are added as (0 + 2) + (1 + 3), then the pieces of a
// quad one after the other, then the quads. All of it follows from the row alone, so a row has equal bits in every
// graph, every subset of rows and under every distribution of work: a group of lanes per row, per quad or per piece.
#ifndef VICINAL_ENGINE_CUDA_ROW_WORK_H_
#define VICINAL_ENGINE_CUDA_ROW_WORK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/status.h"
#include "engine/device/device.h"
#include "engine/device/views.h"
#include "engine/kernels/adjacency_layout.h"

namespace vicinal::cuda {

inline constexpr int kPieceEdges = 256;
inline constexpr int kPiecesPerQuad = 4;
inline constexpr int kQuadEdges = kPieceEdges * kPiecesPerQuad;

// Rows are cut where one group of lanes would be too long at one: into quads on large adjacencies, into pieces where
// that would leave too few items to fill a GPU.
inline constexpr int64_t kManyEdges = int64_t{8} << 20;
inline int PartEdges(int64_t edges) { return edges >= kManyEdges ? kQuadEdges : kPieceEdges; }

// Edges [begin, begin + count) of `row`: all of its, or a part of a longer one.
struct alignas(16) RowItem {
  int32_t row = 0;
  int32_t count = 0;
  int64_t begin = 0;
};

// A row of more than one part, which are items [first_part, first_part + parts).
struct alignas(16) SplitRow {
  int32_t row = 0;
  int32_t parts = 0;
  int64_t first_part = 0;
};

// Items of an adjacency, in the order in which they are started: parts of split rows first, then whole rows, longest
// first within windows of kSortWindow rows, so that groups of lanes that run side by side end together while rows that
// lie close, and so share neighbours, still run close.
struct RowWork {
  std::vector<RowItem> items;
  int64_t num_parts = 0;  // items [0, num_parts) are parts of split rows
  std::vector<SplitRow> splits;
};
inline constexpr int64_t kSortWindow = 4096;

// `adjacency` in host memory.
RowWork MakeRowWork(const CsrView& adjacency, ThreadPool& pool);

// Upper bound of the parts that rows with so many edges in all are split into.
inline int64_t MaxParts(int64_t edges) { return 2 * (edges / PartEdges(edges)); }

// RowWork in device memory.
class RowWorkLayout final : public AdjacencyLayout {
 public:
  static StatusOr<std::shared_ptr<const RowWorkLayout>> Upload(const RowWork& work, Device& device);
  // Of an adjacency of that size.
  static int64_t BytesBound(int64_t rows, int64_t edges) {
    return (rows + 2 * MaxParts(edges)) * static_cast<int64_t>(sizeof(RowItem));
  }

  int64_t size_bytes() const override { return static_cast<int64_t>(items_.bytes() + splits_.bytes()); }
  const RowItem* items() const { return items_.as<RowItem>(); }
  const SplitRow* splits() const { return splits_.as<SplitRow>(); }
  int64_t num_items() const { return num_items_; }
  int64_t num_parts() const { return num_parts_; }
  int64_t num_splits() const { return num_splits_; }

 private:
  Buffer items_, splits_;
  int64_t num_items_ = 0, num_parts_ = 0, num_splits_ = 0;
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_ROW_WORK_H_
