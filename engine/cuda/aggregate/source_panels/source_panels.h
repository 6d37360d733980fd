// SPDX-License-Identifier: Apache-2.0
// source_panels: a block of rows that read many of the same sources keeps these in shared memory. This file has the
// prepared layout and the launcher; the kernel and its idea are in detail/source_panels.cuh.
//
// Layout. A block is `rows()` rows that are adjacent in execution order. A source that a block reads at least `uses`
// times is staged; the edges of other sources are direct, that is, gathered one by one. A block's staged sources, most
// used first, are cut into panels of `places` - 1 sources; its direct edges are spread evenly over the panels. Every
// row has a slot of a warp, chosen so that all warps have about the same number of edges. A slot's work in a panel is a
// cell (low byte: staged edges in pairs for each group of lanes, high byte: direct edges).
//
// The warps read streams of 16-bit entries, in steps of kEntries for each of the `groups` of lanes, panel by panel,
// slot by slot. Direct edges come first, two per group and step, with two entries each: the low and high half of the
// source id. Then come staged edges, four per group and step (two in a last step, if these suffice), with one entry
// each: the byte offset of the source in the panel. Steps are padded with the panel's last place, which does not change
// a sum. Weights are in a parallel stream, at the index of the edge's (first) entry.
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
#include "engine/kernels/layout_codec.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// Entries of a step that a group reads at once.
inline constexpr int kEntries = 4;
// Rows of a warp.
inline constexpr int kSlots = 8;
// Maximum staged edges of a cell, in pairs per group of lanes (it equals the places of a panel), and maximum direct
// edges, so that their sum has little rounding. Further staged edges become direct, and further direct edges get panels
// of their own.
inline constexpr int kMaxPairs = 64;
inline constexpr int kMaxDirect = 128;
// A higher value would leave hardly any source staged.
inline constexpr int kMaxUses = 255;

struct PanelShape {
  int warps = 0;   // of a thread block
  int groups = 0;  // of lanes per warp, which have different edges of a row
  int places = 0;  // per panel: one per source, and a last one for padding
  int uses = 0;
  int multiprocessors = 132;  // for which pieces are cut; the cuts determine where partial sums of a row begin

  int rows() const { return warps * kSlots; }
  // Bytes per place: 16 for each lane of a group.
  int pitch() const { return 32 * 16 / groups; }
};

// Panels [first, first + count) of a block of rows: the work of one thread block. `sums` is the index of its partial
// sums.
struct alignas(16) PanelPiece {
  int32_t first = 0;
  int32_t count = 0;
  int32_t sums = 0;
  int32_t block = 0;
};

// In host memory.
struct SourcePanels {
  std::vector<int32_t> source;       // [panels, shape.places]; -1: no source
  std::vector<uint16_t> stream;      // of all pieces and warps
  std::vector<float> weight;         // [stream], or empty if the adjacency has no values
  std::vector<PanelPiece> pieces;    // in descending order of cost
  std::vector<int64_t> begin;        // [pieces, shape.warps], by PanelPiece::sums: first entry of a warp in `stream`
  std::vector<int32_t> first_piece;  // [blocks + 1]: block b has sums [first_piece[b], first_piece[b + 1])
  std::vector<uint16_t> cell;        // [panels, warps, kSlots]
  std::vector<int32_t> row;          // [blocks, warps, kSlots] the slot's row within its block; -1: no row
};
SourcePanels MakePanels(const CsrView& adjacency, const PanelShape& shape, ThreadPool& pool);

// The percentage of edges whose source is staged, estimated from a sample of the blocks.
int StagedPercent(const CsrView& adjacency, const PanelShape& shape);

// Maximum pieces that blocks are cut into if there are too few blocks, or their sizes differ too much.
inline constexpr int64_t kMaxWantedPieces = 858;
// Upper bound of the pieces of an adjacency with `rows` rows.
inline int64_t MaxPanelPieces(int64_t rows, const PanelShape& shape) {
  return (rows + shape.rows() - 1) / shape.rows() + kMaxWantedPieces;
}

// SourcePanels in device memory.
class SourcePanelsLayout final : public AdjacencyLayout {
 public:
  static StatusOr<std::shared_ptr<const SourcePanelsLayout>> Upload(const SourcePanels& panels, Device& device);
  // Maximum entries of a stream. An adjacency that needs more gets no panels.
  static int64_t MaxEntries(int64_t rows, int64_t edges) { return 4 * edges + 2 * rows + (1 << 16); }
  static int64_t BytesBound(int64_t rows, int64_t edges);

  int64_t size_bytes() const override;
  // All of it (kernels/layout_codec.h).
  FlatLayout Flatten() const;
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

// The shape for the problem's columns, `warps` (16; any other value means 32) and `uses` (0: the default): panels of 64
// KiB with 32 warps, or as large as two have room in a block's shared memory.
PanelShape PanelShapeFor(const AggregateProblem& problem, int warps, int uses, const GpuLimits& limits);

// Scratch bytes of a launch.
size_t SourcePanelsScratchBytes(const AggregateProblem& problem, const PanelShape& shape);

// scratch: SourcePanelsScratchBytes(args.problem, shape) bytes. REQUIRES: `layout` has this shape.
cudaError_t LaunchSourcePanels(const AggregateArgs& args, const SourcePanelsLayout& layout, const PanelShape& shape,
                               const LaunchTarget& target, void* scratch);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_AGGREGATE_SOURCE_PANELS_SOURCE_PANELS_H_
