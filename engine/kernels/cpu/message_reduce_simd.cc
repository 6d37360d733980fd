// SPDX-License-Identifier: Apache-2.0
// Message reduction, FeatGraph's generalised SpMM ("template_spmm"): one skeleton visits edges by target; the
// operations on u, v and messages are parameters.
//
// Idea: without edge layers, a row of the result and its own v stay in registers while the messages pass, a tile of
// columns at a time. With edge layers (MLP aggregation), edges are processed in blocks across row boundaries, and each
// layer is a small dense product over the block, with messages and weights in the near caches.
//
// When it wins: always over the reference. Frameworks compute messages as a matrix [E, D], multiply it and scatter it;
// here nothing of the size of the edges is written or read.
//
// Features of edges enter each message as their product with W, tile by tile in registers: no [edges, D] here either.
// Gated messages, mixtures and softmax-weighted sums pass through scratch in the same blocks as messages of an MLP;
// products of coefficients and rows are summed in registers.
//
// Bytes moved: edges * (4 + 4 weighted + 4 D + 4 A) read, rows * (8 + 4 D (v) + 4 H) read or written; indices once per
// tile.
//
// Parameters: feature_tile, columns per pass over the whole graph (0: all columns of a range of rows, then the next
// range); a tile of few columns keeps the gathered part of src in the caches. edge_block, edges that pass through the
// layers together.
//
// Determinism: one thread per row, edges in order in blocks of kMessageBlock; a message depends on its own edge alone.
// The bits are the same for any number of threads, configuration and subset of rows.
//
// Source: Hu et al., "FeatGraph" (SC'20), sections III-A (templates) and III-C (feature tiling); the product is
// register-tiled as in Goto and van de Geijn (TOMS 2008).
#include <cstring>
#include <memory>
#include <vector>

#include "engine/kernels/cpu/kernels.h"
#include "engine/kernels/cpu/message_scratch.h"
#include "engine/kernels/cpu/work.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/message_reduce_simd.cc"
#include "engine/kernels/cpu/simd_targets.h"
#include "hwy/foreach_target.h"
//
#include "engine/kernels/cpu/message_layers-inl.h"
#include "engine/kernels/cpu/message_outer-inl.h"
#include "engine/kernels/cpu/message_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vicinal::internal::HWY_NAMESPACE {

void ReduceThroughLayers(const MessageReduceArgs& args, ThreadPool* pool, float* scratch) {
  const MessageReduceProblem& p = args.problem;
  const bool extreme = p.reduce == Reduce::kMax || p.reduce == Reduce::kMin;
  const int64_t floats = MessageScratchFloats(p, args.config);
  double products = static_cast<double>(p.edge_width * p.term_width());
  if (p.form == MessageForm::kMixture) products += static_cast<double>(p.source_width());
  if (p.form == MessageForm::kOuter) products += static_cast<double>(p.out_width());
  products += 2 * static_cast<double>(p.edge_width * PaddedToPanel(p.gaussians));
  int64_t in = p.mixes() ? p.edge_width : p.width;
  for (int32_t l = 0; l < p.num_layers; in = p.out_widths[l++])
    products += static_cast<double>(in * PaddedToPanel(p.out_widths[l]));
  // A core does about 25 multiply-adds per nanosecond.
  const double edge_ns = 5 + products / 25;
  ForRows(pool, {args.adjacency.row_ptr, args.dst.rows, edge_ns, 20}, [&](int64_t begin, int64_t end, int thread) {
    float* const own = scratch + thread * floats;
    const StopWithin stop(pool, edge_ns);
    if (p.form == MessageForm::kOuter) return OuterRows(args, own, stop).Run(begin, end);
    if (p.softmax) return EdgeLayers<RowReduction::kSoftmax>(args, own, stop).Run(begin, end);
    extreme ? EdgeLayers<RowReduction::kExtreme>(args, own, stop).Run(begin, end)
            : EdgeLayers<RowReduction::kSum>(args, own, stop).Run(begin, end);
  });
}

void MessageReduceAll(const MessageReduceArgs& args, ThreadPool* pool, void* scratch) {
  if (InEdgeBlocks(args.problem)) return ReduceThroughLayers(args, pool, static_cast<float*>(scratch));
  const int64_t width = args.dst.cols, tile = args.config.values[0] > 0 ? args.config.values[0] : width;
  for (int64_t col = 0; col < width; col += tile) {
    const int64_t end_col = Smaller(width, col + tile);
    const double vectors = static_cast<double>(DivideUp(end_col - col, kLanes));
    const double features = 0.5 * static_cast<double>(args.problem.edge_width);
    const double edge_ns = 1 + (0.7 + features) * vectors;
    ForRows(pool, {args.adjacency.row_ptr, args.dst.rows, edge_ns, 5 + vectors}, [&](int64_t begin, int64_t end, int) {
      ReduceMessages(args, begin, end, col, end_col, StopWithin(pool, edge_ns));
    });
  }
}

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vicinal::internal {
namespace {

HWY_EXPORT(MessageReduceAll);

class TemplateSpmm final : public MessageReduceKernel {
 public:
  std::string_view name() const override { return "template_spmm"; }
  DeviceKind device() const override { return DeviceKind::kCpu; }
  DeclaredOrder declared_order() const override { return {"edge_blocks", 1, true}; }
  Refusal WhyUnsupported(const MessageReduceProblem&) const override { return {}; }

  std::vector<std::string_view> ParameterNames() const override { return {"feature_tile", "edge_block"}; }
  std::vector<ParameterRange> ParameterRanges() const override {
    return {ParameterRange::AtLeast(0), ParameterRange::AtLeast(0)};
  }
  std::vector<KernelConfig> Candidates(const MessageReduceProblem& problem) const override {
    std::vector<KernelConfig> candidates = {KernelConfig()};
    if (InEdgeBlocks(problem)) {
      for (const int32_t edges : {48, 192}) candidates.push_back({{0, edges}});
      return candidates;
    }
    for (const int32_t tile : {32, 64, 128}) {
      if (tile < problem.width) candidates.push_back({{tile, 0}});
    }
    return candidates;
  }

  size_t ScratchBytes(const MessageReduceProblem& problem, const KernelConfig& config, int num_threads) const override {
    return static_cast<size_t>(num_threads) * static_cast<size_t>(MessageScratchFloats(problem, config)) *
           sizeof(float);
  }

  // Panels of kEdgePanel outputs, padded with zeros: [ceil(out / kEdgePanel)][in][kEdgePanel].
  size_t PackedBytes(int64_t out_width, int64_t in_width) const override {
    return static_cast<size_t>(PaddedToPanel(out_width)) * static_cast<size_t>(in_width) * sizeof(float);
  }
  void Pack(ConstMatrixView weight, void* packed) const override {
    if (weight.rows == 0 || weight.cols == 0) return;
    float* out = static_cast<float*>(packed);
    std::memset(out, 0, PackedBytes(weight.rows, weight.cols));
    for (int64_t h = 0; h < weight.rows; ++h) {
      float* panel = out + h / kEdgePanel * kEdgePanel * weight.cols + h % kEdgePanel;
      for (int64_t f = 0; f < weight.cols; ++f) panel[f * kEdgePanel] = weight.row(h)[f];
    }
  }

  Status Run(DeviceContext& context, const MessageReduceArgs& args, void* scratch) const override {
    HWY_DYNAMIC_DISPATCH(MessageReduceAll)(args, context.thread_pool(), scratch);
    return OkStatus();
  }
};

}  // namespace

std::unique_ptr<const MessageReduceKernel> MakeTemplateSpmm() { return std::make_unique<TemplateSpmm>(); }

}  // namespace vicinal::internal
#endif  // HWY_ONCE
