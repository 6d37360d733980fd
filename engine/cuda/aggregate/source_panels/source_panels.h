// SPDX-License-Identifier: Apache-2.0
// source_panels: blocks of rows that read many of the same sources keep those in shared memory. This file: what is
// prepared of a graph, and the launcher; source_panels.cuh has the kernel and its idea.
//
// Layout. Rows are taken `rows()` at a time, in execution order: a block. A source that a block reads at least `uses`
// times is staged, the others are gathered edge by edge (direct). A block's staged sources, most used first, are cut
// into panels of `places` - 1; its direct edges are spread evenly over the panels. Every row has a slot of a warp, so
// that warps have about as many edges each. What a slot does in a panel is its cell (low byte: staged edges by pairs
// for each group of lanes, high byte: direct edges). What warps do is a stream of 16-bit entries, in steps of kEntries
// for each of the `groups` of lanes, panel by panel, slot by slot. Direct edges first, two to a group and step, two
// entries each: low and high half of the source's number. Then staged edges, four to a group and step, in a last step
// two where that is enough: where the source's place in the panel begins, in bytes. Steps are filled up with the last
// place, which changes no sum. Weights lie in a stream beside it, that of an edge where its (first) entry lies.
#ifndef VICINAL_ENGINE_CUDA_AGGREGATE_SOURCE_PANELS_SOURCE_PANELS_H_
#define VICINAL_ENGINE_CUDA_AGGREGATE_SOURCE_PANELS_SOURCE_PANELS_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/status.h"
#include "engine/cuda/common/launch.h"
#include "engine/kernels/adjacency_layout.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// Entries of a step that a group reads at once.
inline constexpr int kEntries = 4;
// Rows of a warp.
inline constexpr int kSlots = 8;
// Of a cell: as many staged edges (pairs for each group) as a panel has places, and as many direct ones as add up
// without much rounding. Further staged edges are gathered, further direct edges get panels of their own.
inline constexpr int kMaxPairs = 64;
inline constexpr int kMaxDirect = 128;
// More would stage hardly anything.
inline constexpr int kMaxUses = 255;

struct PanelShape {
  int warps = 0;   // of a thread block
  int groups = 0;  // of lanes of a warp, which have different edges of a row
  int places = 0;  // of a panel, for one source each but for the last
  int uses = 0;

  int rows() const { return warps * kSlots; }
  // Bytes from place to place: 16 for each lane of a group.
  int pitch() const { return 32 * 16 / groups; }
};

// Panels [first, first + count) of a block of rows: the work of one thread block, whose sums become number `sums`.
struct alignas(16) PanelPiece {
  int32_t first = 0;
  int32_t count = 0;
  int32_t sums = 0;
  int32_t block = 0;
};

// In host memory.
struct SourcePanels {
  std::vector<int32_t> source;       // [panels, shape.places]; -1: none
  std::vector<uint16_t> stream;      // of all pieces and warps
  std::vector<float> weight;         // [stream], or empty where the adjacency has no values
  std::vector<PanelPiece> pieces;    // dearest first
  std::vector<int64_t> begin;        // [pieces, shape.warps] where in `stream` a warp begins; by the piece's sums
  std::vector<int32_t> first_piece;  // [blocks + 1]: sums of block b are first_piece[b] to first_piece[b + 1]
  std::vector<uint16_t> cell;        // [panels, warps, kSlots]
  std::vector<int32_t> row;          // [blocks, warps, kSlots] the slot's row within its block; -1: none
};
SourcePanels MakePanels(const CsrView& adjacency, const PanelShape& shape, ThreadPool& pool);

// Percent of the edges whose sources a block stages, from a sample of the blocks.
int StagedPercent(const CsrView& adjacency, const PanelShape& shape);

// As many pieces as blocks are cut into at most, where whole ones would be too few or too unlike.
inline constexpr int64_t kMaxWantedPieces = 858;
// Upper bound of the pieces of an adjacency with so many rows.
inline int64_t MaxPanelPieces(int64_t rows, const PanelShape& shape) {
  return (rows + shape.rows() - 1) / shape.rows() + kMaxWantedPieces;
}

// SourcePanels in device memory.
class SourcePanelsLayout final : public AdjacencyLayout {
 public:
  static StatusOr<std::shared_ptr<const SourcePanelsLayout>> Upload(const SourcePanels& panels, Device& device);
  // Entries that a stream may have; an adjacency that needs more gets no panels.
  static int64_t MostEntries(int64_t rows, int64_t edges) { return 4 * edges + 2 * rows + (1 << 16); }
  static int64_t BytesBound(int64_t rows, int64_t edges);

  int64_t size_bytes() const override;
  const int32_t* source() const { return source_.as<int32_t>(); }
  const uint16_t* stream() const { return stream_.as<uint16_t>(); }
  const float* weight() const { return weight_.bytes() > 0 ? weight_.as<float>() : nullptr; }
  const PanelPiece* pieces() const { return pieces_.as<PanelPiece>(); }
  const int64_t* begin() const { return begin_.as<int64_t>(); }
  const int32_t* first_piece() const { return first_piece_.as<int32_t>(); }
  const uint16_t* cell() const { return cell_.as<uint16_t>(); }
  const int32_t* row() const { return row_.as<int32_t>(); }
  int64_t num_pieces() const { return static_cast<int64_t>(pieces_.bytes() / sizeof(PanelPiece)); }

 private:
  Buffer source_, stream_, weight_, pieces_, begin_, first_piece_, cell_, row_;
};

// The shape that columns, `warps` (16, or 32 for anything else) and `uses` (0: the default) lead to.
PanelShape PanelShapeFor(const AggregateProblem& problem, int warps, int uses);

// Bytes of scratch of a launch.
size_t SourcePanelsScratchBytes(const AggregateProblem& problem, const PanelShape& shape);

// scratch: SourcePanelsScratchBytes(args.problem, shape); `layout` is of that shape.
cudaError_t LaunchSourcePanels(const AggregateArgs& args, const SourcePanelsLayout& layout, const PanelShape& shape,
                               const LaunchTarget& target, void* scratch);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_AGGREGATE_SOURCE_PANELS_SOURCE_PANELS_H_
