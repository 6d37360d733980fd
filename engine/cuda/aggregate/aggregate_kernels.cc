// SPDX-License-Identifier: Apache-2.0
// binned_rows, dense_tiles and row_cache as kernels of the operation aggregate, and binned_rows as sparse_update:
// features in CSR form times W^T is an aggregation of W^T's rows with the features as weights.
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/cuda/aggregate/binned_rows/binned_rows.h"
#include "engine/cuda/aggregate/dense_tiles/dense_tiles.h"
#include "engine/cuda/common/kernels.h"
#include "engine/cuda/published/row_cache/row_cache.h"
#include "engine/cuda/runtime/cuda_kernel.h"

namespace vicinal::cuda {
namespace {

// Wide bundles of longer rows gain where lanes have little to do: on amazon0505, 12 edges to a row, unweighted sums of
// rows in 16 bits are 4 to 18 % faster by them and those of up to 32 columns of float32 3 to 11 %, but wider ones 2 to
// 6 % slower and weighted ones up to 7 %.
int WideUpTo(const AggregateProblem& problem) {
  const bool plain = !problem.weighted && (problem.reduce == Reduce::kSum || problem.reduce == Reduce::kMean);
  return plain && (problem.storage != Storage::kFloat32 || problem.width <= 32) ? kSomeEdges : kHardlyAnyEdges;
}

// Up to so many rows a product of its own is mostly one more launch. Of more, tiles make more than 8 outputs in little
// more time than rows take to be read, and an aggregation that multiplies takes longer than one that stores: artist, 64
// to 16, 117 us in place of 105 for both, molecules, 32 to 16, 891 in place of 819 (docs/performance.md).
constexpr int64_t kFewRows = 8192;

class BinnedRowsKernel final : public CudaKernel<AggregateKernel> {
 public:
  BinnedRowsKernel() : CudaKernel("binned_rows") {}
  Refusal WhyUnsupported(const AggregateProblem& problem) const override {
    return WhySizeUnsupported(problem.rows, problem.edges, problem.width);
  }
  Refusal WhyProductUnsupported(const AggregateProblem& problem) const override {
    if (problem.storage != Storage::kFloat32) return "it multiplies what it sums up of float32 rows only";
    if (problem.width > kMaxProductInputs || problem.out_width > kMaxProductOutputs) {
      return absl::StrCat("it multiplies what it sums up of up to ", kMaxProductInputs, " columns to up to ",
                          kMaxProductOutputs, "; these are ", problem.width, " to ", problem.out_width);
    }
    if (problem.rows > kFewRows && problem.out_width > 8) {
      return absl::StrCat("of more than ", kFewRows, " rows it multiplies to up to 8 outputs");
    }
    return {};
  }
  size_t PackedBytes(int64_t out_width, int64_t in_width) const override {
    return static_cast<size_t>(ProductFloats(out_width, in_width)) * sizeof(float);
  }
  void Pack(ConstMatrixView weight, void* packed) const override {
    std::memset(packed, 0, PackedBytes(weight.rows, weight.cols));
    for (int64_t h = 0; h < weight.rows; ++h) {
      for (int64_t f = 0; f < weight.cols; ++f) {
        static_cast<float*>(packed)[(f / 4 * weight.rows + h) * 4 + f % 4] = weight.row(h)[f];
      }
    }
  }
  std::vector<std::string_view> ParameterNames() const override { return {"tile", "scale_first"}; }
  std::vector<KernelConfig> Candidates(const AggregateProblem& problem) const override {
    std::vector<KernelConfig> candidates = {{}};
    if (problem.width > 32) candidates.push_back({{32}});
    if (problem.width >= 128 && problem.storage != Storage::kFloat32) candidates.push_back({{128}});
    // Measured on an H200: it pays from 5 reads of a source on with 16 columns, 20 with 32, 30 with 64.
    if (ScalesFirst(problem, {.scale_first = true}) && problem.edges >= problem.cols * problem.width / 4) {
      for (size_t i = 0, plain = candidates.size(); i < plain; ++i)
        candidates.push_back({{candidates[i].values[0], 1}});
    }
    return candidates;
  }
  int64_t ReductionOrder(const AggregateProblem& problem, const KernelConfig& config) const override {
    return ScalesFirst(problem, ConfigOf(config)) ? kScaledRowsOrder : 0;
  }
  std::string LayoutName(const AggregateProblem& problem, const KernelConfig&) const override {
    const auto wide = [&](int up_to) { return HasWideBundles(problem.rows, problem.edges, up_to); };
    // Another one only if it differs.
    return wide(WideUpTo(problem)) && !wide(kHardlyAnyEdges) ? "wide_row_work" : "row_work";
  }
  StatusOr<AdjacencyLayoutRef> MakeLayout(const AggregateProblem& problem, const KernelConfig&,
                                          LayoutSource& source) const override {
    VICINAL_ASSIGN_OR_RETURN(const CsrView adjacency, source.OnHost());
    const RowWork work = MakeRowWork(adjacency, source.pool(), WideUpTo(problem));
    VICINAL_ASSIGN_OR_RETURN(AdjacencyLayoutRef layout, RowWorkLayout::Upload(work, source.device()));
    return layout;
  }
  int64_t LayoutBytesBound(int64_t rows, int64_t edges) const override {
    return RowWorkLayout::BytesBound(rows, edges);
  }
  size_t ScratchBytes(const AggregateProblem& problem, const KernelConfig& config, int) const override {
    return BinnedRowsScratchBytes(problem, ConfigOf(config));
  }

 protected:
  cudaError_t Launch(const AggregateArgs& args, const LaunchTarget& target, void* scratch) const override {
    return LaunchBinnedRows(args, static_cast<const RowWorkLayout*>(args.layout), ConfigOf(args.config), {}, target,
                            scratch);
  }

 private:
  static BinnedRowsConfig ConfigOf(const KernelConfig& config) { return {config.values[0], config.values[1] != 0}; }
};

// Tiles of fewer edges are read faster as rows: measured on an H200, a tile at width 64 takes what about 150 rows do.
constexpr int32_t kDenseEdges = 128;

class DenseTilesKernel final : public CudaKernel<AggregateKernel> {
 public:
  DenseTilesKernel() : CudaKernel("dense_tiles") {}
  Refusal WhyUnsupported(const AggregateProblem& problem) const override {
    if (problem.reduce != Reduce::kSum && problem.reduce != Reduce::kMean) return "only sum and mean";
    if (problem.weighted && !problem.source_scaled) return "only weights of 1, or of the sources";
    return WhySizeUnsupported(problem.rows, problem.edges, problem.width);
  }
  std::vector<std::string_view> ParameterNames() const override { return {"threshold"}; }
  std::vector<KernelConfig> Candidates(const AggregateProblem&) const override {
    return {{}, {{kMinThreshold}}, {{kDenseEdges * 2}}};
  }
  int64_t ReductionOrder(const AggregateProblem&, const KernelConfig& config) const override {
    return kDenseTilesOrder + Threshold(config);
  }
  std::string LayoutName(const AggregateProblem&, const KernelConfig& config) const override {
    return absl::StrCat("tiles of ", Threshold(config));
  }
  StatusOr<AdjacencyLayoutRef> MakeLayout(const AggregateProblem&, const KernelConfig& config,
                                          LayoutSource& source) const override {
    VICINAL_ASSIGN_OR_RETURN(const CsrView adjacency, source.OnHost());
    const DenseTiles tiles = FindDenseTiles(adjacency, Threshold(config), source.pool());
    if (tiles.tile_col.empty()) {
      return FailedPrecondition("KERNEL_REFUSED", absl::StrCat("no ", kTileRows, " targets and ", kTileCols,
                                                               " sources have ", Threshold(config), " edges"));
    }
    VICINAL_ASSIGN_OR_RETURN(AdjacencyLayoutRef layout, DenseTilesLayout::Upload(tiles, adjacency, source));
    return layout;
  }
  int64_t LayoutBytesBound(int64_t rows, int64_t edges) const override {
    return DenseTilesLayout::BytesBound(rows, edges, kMinThreshold);
  }
  bool whole_graph_only() const override { return true; }
  size_t ScratchBytes(const AggregateProblem& problem, const KernelConfig&, int) const override {
    return DenseTilesScratchBytes(problem);
  }

 protected:
  cudaError_t Launch(const AggregateArgs& args, const LaunchTarget& target, void* scratch) const override {
    return LaunchDenseTiles(args, static_cast<const DenseTilesLayout&>(*args.layout), target, scratch);
  }

 private:
  // What LayoutBytesBound counts on: a tile is 1 KiB, however few edges it has.
  static constexpr int32_t kMinThreshold = kDenseEdges / 2;
  static int32_t Threshold(const KernelConfig& config) {
    return config.values[0] > 0 ? std::max(config.values[0], kMinThreshold) : kDenseEdges;
  }
};

class RowCacheKernel final : public CudaKernel<AggregateKernel> {
 public:
  RowCacheKernel() : CudaKernel("row_cache") {}
  Refusal WhyUnsupported(const AggregateProblem& problem) const override {
    if (problem.storage != Storage::kFloat32) return "only float32 rows";
    return WhySizeUnsupported(problem.rows, problem.edges, problem.width);
  }
  std::vector<std::string_view> ParameterNames() const override { return {"cf", "uncached"}; }
  // `uncached` is no candidate: it is there to tell what caching and merging are worth.
  std::vector<KernelConfig> Candidates(const AggregateProblem& problem) const override {
    std::vector<KernelConfig> candidates = {KernelConfig()};
    const int standard = RowCacheCoarsening(problem.width, 0);
    for (const int coarsening : {1, 2, 4}) {
      if (problem.width > 32 && coarsening != standard) candidates.push_back({{coarsening}});
    }
    return candidates;
  }
  int64_t ReductionOrder(const AggregateProblem&, const KernelConfig&) const override { return kRowCacheOrder; }

 protected:
  cudaError_t Launch(const AggregateArgs& args, const LaunchTarget& target, void*) const override {
    const KernelConfig& config = args.config;
    return LaunchRowCache(args, {RowCacheCoarsening(args.problem.width, config.values[0]), config.values[1] == 0},
                          target);
  }
};

class SparseUpdate final : public CudaWeightedKernel<SparseUpdateKernel> {
 public:
  SparseUpdate() : CudaWeightedKernel("binned_rows") {}
  Refusal WhyUnsupported(const SparseUpdateProblem& problem) const override {
    return WhySizeUnsupported(problem.rows, problem.nnz, problem.out_width);
  }

 protected:
  cudaError_t Launch(const SparseUpdateArgs& args, const LaunchTarget& target, void*) const override {
    AggregateArgs product;
    product.problem.weighted = args.src.value != nullptr;
    product.problem.rows = args.problem.rows;
    product.problem.cols = args.problem.in_width;
    product.problem.edges = args.src.nnz;
    product.problem.width = args.problem.out_width;
    product.adjacency = args.src;
    product.src = {static_cast<const float*>(args.weight), args.problem.in_width, args.problem.out_width,
                   PackedStride(args.problem.out_width)};
    product.dst = args.dst;
    product.epilogue = args.epilogue;
    // Without work lists, which would have to be made for every set of features.
    return LaunchBinnedRows(product, nullptr, {}, {}, target, nullptr);
  }
};

}  // namespace

std::unique_ptr<const AggregateKernel> MakeBinnedRows() { return std::make_unique<BinnedRowsKernel>(); }
std::unique_ptr<const AggregateKernel> MakeDenseTiles() { return std::make_unique<DenseTilesKernel>(); }
std::unique_ptr<const AggregateKernel> MakeRowCache() { return std::make_unique<RowCacheKernel>(); }
std::unique_ptr<const SparseUpdateKernel> MakeSparseUpdate() { return std::make_unique<SparseUpdate>(); }

}  // namespace vicinal::cuda
