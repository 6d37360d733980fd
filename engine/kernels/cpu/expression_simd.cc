// SPDX-License-Identifier: Apache-2.0
// Message functions as expressions ("edge_tiles"): an interpreter of vectors.
//
// Idea: the values of a tile of edges stand in registers, small matrices in the near caches. An
// instruction is carried out for the whole tile before the next begins, so that choosing it costs nothing against its
// loop, and the loop is SIMD over columns. Then the tile's messages are reduced row by row. Nothing of the size of the
// edges is written or read.
//
// When it wins: always over the reference. Functions that a fixed kernel has are lowered to that one.
//
// Bytes moved: per edge 4 + 4 * gathered columns, 4 A of features; per row what targets have, and the result. Registers
// are tile * register_floats * 4 bytes, read and written in the caches.
//
// Parameters: edge_tile, edges that an instruction is carried out for before the next (0: 48; up to 192). Fewer keep
// wide values in the nearest cache, more choose instructions less often. prefetch_columns of a source, when its edge
// enters the tile (0: 256; -1: none).
//
// Determinism: one thread per row. A row of up to a tile's edges is reduced within one tile; a longer one in pieces of
// kExpressionTile edges, counted from its own first edge. So its bits depend neither on other rows, nor on threads, nor
// on the rows that are computed.
//
// Source: Hu et al., "FeatGraph" (SC'20), sections II-B and III-A: a template with a user-defined message function; its
// functions are compiled, these are interpreted.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/kernels/cpu/edge_features.h"
#include "engine/kernels/cpu/expression_tiles.h"
#include "engine/kernels/cpu/kernels.h"
#include "engine/kernels/cpu/message_scratch.h"
#include "engine/kernels/cpu/work.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/expression_simd.cc"
#include "engine/kernels/cpu/simd_targets.h"
#include "hwy/foreach_target.h"
//
#include "engine/kernels/cpu/edge_reductions-inl.h"
#include "hwy/cache_control.h"

#if defined(VICINAL_ENGINE_KERNELS_CPU_EXPRESSION_SIMD_ONCE) == 0
#define VICINAL_ENGINE_KERNELS_CPU_EXPRESSION_SIMD_ONCE
namespace vicinal::internal {
namespace {

// A thread's scratch in floats: registers of a tile, then the state of one row.
int64_t ExpressionScratchFloats(const EdgeCode& code, const TileSizes& sizes) {
  return (code.register_floats * sizes.edges + code.state_floats + kEdgePanel - 1) / kEdgePanel * kEdgePanel +
         kEdgePanel;
}

}  // namespace
}  // namespace vicinal::internal
#endif

HWY_BEFORE_NAMESPACE();
namespace vicinal::internal::HWY_NAMESPACE {

// One thread's work on rows of an adjacency.
class EdgeTiles {
 public:
  EdgeTiles(const ExpressionArgs& args, float* scratch, const StopWithin& stop)
      : args_(args),
        stop_(stop),
        code_(*args.problem.code),
        sizes_(args.config),
        values_(args, sizes_, scratch),
        state_(scratch + code_.register_floats * sizes_.edges) {}

  // Rows [begin, end), or some of them if the loop is stopped.
  HWY_NOINLINE void Run(int64_t begin, int64_t end) {
    const int64_t* const row_ptr = args_.adjacency.row_ptr;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t degree = row_ptr[row + 1] - row_ptr[row];
      if (degree == 0) {
        StoreRow(row, 0);
        continue;
      }
      for (int64_t k = 0; k < degree; k += kExpressionTile) {
        const int64_t end = Smaller(degree, k + kExpressionTile);
        if (stop_.Before(end - k)) return;
        if (values_.tile.edges + end - k > sizes_.edges) Flush();
        Append(row, k, end, degree);
      }
    }
    Flush();
  }

 private:
  // Edges [begin, end) of `row`, counted from its first.
  void Append(int64_t row, int64_t begin, int64_t end, int64_t degree) {
    EdgeTile& tile = values_.tile;
    segments_[num_segments_++] = {row, tile.edges, tile.edges + end - begin, begin, end == degree};
    const int64_t first = args_.adjacency.row_ptr[row];
    const float* const weights = args_.adjacency.value;
    EdgeFeaturesOfRow features;
    if (code_.edge_width > 0) features = EdgeFeaturesOfRow(args_.edge, row);
    for (int64_t k = begin; k < end; ++k, ++tile.edges) {
      const int64_t source = args_.adjacency.col[first + k];
      tile.source[tile.edges] = source;
      tile.target[tile.edges] = row;
      tile.weight[tile.edges] = weights != nullptr ? weights[first + k] : 1.0f;
      tile.features[tile.edges] = code_.edge_width > 0 ? features.At(k) : nullptr;
      Prefetch(source);
    }
  }

  // Rows of sources are read when the tile is full. Inline by force: GCC sees a function without effects in this, and
  // removes its calls before it would inline them.
  VICINAL_INLINE void Prefetch(int64_t source) const {
    for (const ConstMatrixView& view : args_.sources) {
      if (view.empty()) return;
      const float* const row = view.row(source);
      for (int64_t c = 0; c < Smaller(view.cols, sizes_.prefetched); c += 16) hwy::Prefetch(row + c);
    }
  }

  HWY_NOINLINE void Flush() {
    if (num_segments_ == 0) return;
    values_.Compute();
    for (int64_t s = 0; s < num_segments_; ++s) {
      const EdgeSegment& segment = segments_[s];
      float* state = state_;
      for (const EdgeCodeResult& result : code_.results) {
        EdgeReduction(result, values_, state).Join(segment);
        state += result.state_floats;
      }
      if (segment.last) StoreRow(segment.row, segment.before + segment.edges());
    }
    num_segments_ = values_.tile.edges = 0;
  }

  VICINAL_INLINE void StoreRow(int64_t row, int64_t degree) {
    float* state = state_;
    int64_t first = 0;
    for (const EdgeCodeResult& result : code_.results) {
      EdgeReduction reduction(result, values_, state);
      if (degree > 0) reduction.Finish();
      for (int64_t c = 0; c < reduction.width(); c += kLanes) {
        const int64_t count = reduction.width() - c, col = first + c;
        const VF x = degree > 0 ? reduction.Result(c, degree) : hn::Zero(Floats());
        StoreSome(internal::HWY_NAMESPACE::Finish(x, args_.epilogue, row, col, count), args_.dst.row(row) + col, count);
      }
      first += reduction.width();
      state += result.state_floats;
    }
  }

  const ExpressionArgs& args_;
  StopWithin stop_;
  const EdgeCode& code_;
  const TileSizes sizes_;
  EdgeValues values_;
  float* const state_;
  int64_t num_segments_ = 0;
  EdgeSegment segments_[kMostTileEdges];
};

// Rows [begin, end) of a program over rows.
inline HWY_NOINLINE void ComputeRows(const ExpressionArgs& args, float* scratch, int64_t begin, int64_t end) {
  const TileSizes sizes(args.config);
  EdgeValues values(args, sizes, scratch);
  const EdgeOperand& result = args.problem.code->results[0].value;
  for (int64_t row = begin; row < end; row += sizes.edges) {
    EdgeTile& tile = values.tile;
    tile.edges = Smaller(end - row, sizes.edges);
    for (int64_t e = 0; e < tile.edges; ++e) tile.target[e] = row + e, tile.weight[e] = 1.0f;
    values.Compute();
    const OperandRows rows = values.RowsOf(result);
    for (int64_t e = 0; e < tile.edges; ++e) {
      for (int64_t c = 0; c < result.width; c += kLanes) {
        const int64_t count = result.width - c;
        const VF x = LoadSome(rows[e] + c, count);
        StoreSome(Finish(x, args.epilogue, row + e, c, count), args.dst.row(row + e) + c, count);
      }
    }
  }
}

void ExpressionAll(const ExpressionArgs& args, ThreadPool* pool, float* scratch) {
  const EdgeCode& code = *args.problem.code;
  const int64_t floats = ExpressionScratchFloats(code, TileSizes(args.config));
  // A core does about 16 operations per nanosecond, and gathers a line of 16 columns in one.
  const double work = 2 + code.operations / 16 + static_cast<double>(code.gathered) / 16;
  const double store = 5 + static_cast<double>(code.width) / 8;
  if (code.over_edges) {
    ForRows(pool, {args.adjacency.row_ptr, args.dst.rows, work, store}, [&](int64_t begin, int64_t end, int thread) {
      EdgeTiles(args, scratch + thread * floats, StopWithin(pool, work)).Run(begin, end);
    });
  } else {
    ForRows(pool, {nullptr, args.dst.rows, 0, work + store},
            [&](int64_t begin, int64_t end, int thread) { ComputeRows(args, scratch + thread * floats, begin, end); });
  }
}

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vicinal::internal {
namespace {

HWY_EXPORT(ExpressionAll);

class EdgeTilesKernel final : public ExpressionKernel {
 public:
  std::string_view name() const override { return "edge_tiles"; }
  DeviceKind device() const override { return DeviceKind::kCpu; }
  DeclaredOrder declared_order() const override { return {"expression_tiles", 2, true}; }
  Refusal WhyUnsupported(const ExpressionProblem&) const override { return {}; }

  std::vector<std::string_view> ParameterNames() const override { return {"edge_tile", "prefetch_columns"}; }
  std::vector<ParameterRange> ParameterRanges() const override {
    return {ParameterRange::Between(kFewestPassEdges, kMostTileEdges), ParameterRange::AtLeast(-1)};
  }
  std::vector<KernelConfig> Candidates(const ExpressionProblem&) const override {
    std::vector<KernelConfig> candidates = {KernelConfig()};
    // Smaller tiles were not faster beyond noise, and without prefetching all are slower
    // (docs/notebook/message_expressions.md).
    for (const int32_t tile : {96, 192}) candidates.push_back({{tile, 0}});
    return candidates;
  }

  size_t ScratchBytes(const ExpressionProblem& problem, const KernelConfig& config, int num_threads) const override {
    return static_cast<size_t>(num_threads) *
           static_cast<size_t>(ExpressionScratchFloats(*problem.code, TileSizes(config))) * sizeof(float);
  }

  // Panels of kEdgePanel outputs, padded with zeros; up to four outputs: their rows.
  size_t PackedBytes(int64_t out_width, int64_t in_width) const override {
    const int64_t rows = out_width <= 4 ? out_width : PaddedToPanel(out_width);
    return static_cast<size_t>(rows) * static_cast<size_t>(in_width) * sizeof(float);
  }
  void Pack(ConstMatrixView weight, void* packed) const override {
    if (weight.rows == 0 || weight.cols == 0) return;
    float* const out = static_cast<float*>(packed);
    std::memset(out, 0, PackedBytes(weight.rows, weight.cols));
    const bool in_panels = weight.rows > 4;
    for (int64_t h = 0; h < weight.rows; ++h) {
      float* const to =
          in_panels ? out + h / kEdgePanel * kEdgePanel * weight.cols + h % kEdgePanel : out + h * weight.cols;
      for (int64_t f = 0; f < weight.cols; ++f) to[in_panels ? f * kEdgePanel : f] = weight.row(h)[f];
    }
  }

  Status Run(DeviceContext& context, const ExpressionArgs& args, void* scratch) const override {
    HWY_DYNAMIC_DISPATCH(ExpressionAll)(args, context.thread_pool(), static_cast<float*>(scratch));
    return OkStatus();
  }
};

}  // namespace

std::unique_ptr<const ExpressionKernel> MakeEdgeTiles() { return std::make_unique<EdgeTilesKernel>(); }

}  // namespace vicinal::internal
#endif  // HWY_ONCE
