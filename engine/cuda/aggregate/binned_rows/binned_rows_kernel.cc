// SPDX-License-Identifier: Apache-2.0
// binned_rows as a kernel of the operations aggregate and sparse_update. The latter multiplies features in CSR form by
// W^T, which is an aggregation of the rows of W^T with the features as edge weights.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/cuda/aggregate/binned_rows/binned_rows.h"
#include "engine/cuda/aggregate/rows/row_work_form.h"
#include "engine/cuda/runtime/cuda_kernel.h"
#include "engine/cuda/runtime/row_borders.h"
#include "engine/kernels/gpu_gather_cost.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda {
namespace {

// Wide bundles of longer rows pay only if lanes have little to do. Measured on amazon0505 (12 edges per row):
// unweighted sums are 4 to 18 % faster in 16 bits and 3 to 11 % faster in float32 up to 32 columns, but wider ones are
// 2 to 6 % slower and weighted ones up to 7 % slower.
int WideUpTo(const AggregateProblem& problem) {
  const bool plain = !problem.weighted && (problem.reduce == Reduce::kSum || problem.reduce == Reduce::kMean);
  return plain && (problem.storage != Storage::kFloat32 || problem.width <= 32) ? kWideUpToCheapRows : kWideUpTo;
}

// With at most this many rows, a separate product mostly costs its launch. With more rows and more than 8 outputs, the
// separate product is faster: its tiles compute the additional outputs almost free, while a fused aggregation takes
// longer than one that stores. Measured, fused against separate: artist, 64 to 16: 117 us against 105; molecules, 32 to
// 16: 891 us against 819 (docs/performance.md).
constexpr int64_t kFewRows = 8192;

class BinnedRowsKernel final : public CudaKernel<AggregateKernel>, public LayoutCodec {
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
  std::vector<ParameterRange> ParameterRanges() const override {
    return {ParameterRange::AtLeast(0), ParameterRange::OneOf({1})};
  }
  std::vector<KernelConfig> Candidates(const AggregateProblem& problem) const override {
    std::vector<KernelConfig> candidates = {{}};
    if (problem.width > 32) candidates.push_back({{32}});
    if (problem.width >= 128 && problem.storage != Storage::kFloat32) candidates.push_back({{128}});
    // Measured on an H200: faster from 5 reads per source on with 16 columns, 20 with 32, 30 with 64.
    if (ScalesFirst(problem, {.scale_first = true}) && problem.edges >= problem.cols * problem.width / 4) {
      for (size_t i = 0, plain = candidates.size(); i < plain; ++i)
        candidates.push_back({{candidates[i].values[0], 1}});
    }
    return candidates;
  }
  DeclaredOrder declared_order() const override { return {"row_parts", 1, true}; }
  std::vector<int64_t> OrderParameters(const AggregateProblem& problem, const KernelConfig& config) const override {
    return {ScalesFirst(problem, ConfigOf(config)) ? 1 : 0};
  }
  std::optional<double> PredictSeconds(const AggregateProblem& problem, const KernelConfig&,
                                       const WorkShape& shape) const override {
    return GpuGatherSeconds(problem, shape);
  }
  std::string LayoutName(const AggregateProblem& problem, const KernelConfig&) const override {
    const auto wide = [&](int up_to) { return HasWideBundles(problem.rows, problem.edges, up_to); };
    // A layout of its own only if it differs.
    return wide(WideUpTo(problem)) && !wide(kWideUpTo) ? kWideWorkName : kWorkName;
  }
  StatusOr<AdjacencyLayoutRef> MakeLayout(const AggregateProblem& problem, const KernelConfig&,
                                          LayoutSource& source) const override {
    VICINAL_ASSIGN_OR_RETURN(const RowBorders borders, RowBorders::Of(source));
    const RowWork work = MakeRowWork(borders.view(), source.pool(), WideUpTo(problem));
    VICINAL_ASSIGN_OR_RETURN(AdjacencyLayoutRef layout, RowWorkLayout::Upload(work, source.device()));
    return layout;
  }
  int64_t LayoutBytesBound(int64_t rows, int64_t edges) const override {
    return RowWorkLayout::BytesBound(rows, edges);
  }
  int64_t layout_version() const override { return 1; }
  FlatLayout Flatten(const AdjacencyLayout& layout) const override {
    return FlattenRowWork(static_cast<const RowWorkLayout&>(layout));
  }
  StatusOr<AdjacencyLayoutRef> Unflatten(std::string_view name, const LayoutInput& input,
                                         LayoutSource& source) const override {
    if (name != kWorkName && name != kWideWorkName) return input.Bad("this kernel has no layout of that name");
    VICINAL_ASSIGN_OR_RETURN(const RowBorders borders, RowBorders::Of(source));
    const int64_t part = PartEdges(source.adjacency().nnz);
    const RowCuts cuts = {part, BlockEdges(source.adjacency().nnz),
                          [part](int64_t count, int64_t, int64_t index) { return std::min(count, part * index); }};
    VICINAL_ASSIGN_OR_RETURN(const RowWork work, ReadRowWork(input, borders.view(), cuts));
    VICINAL_ASSIGN_OR_RETURN(AdjacencyLayoutRef layout, RowWorkLayout::Upload(work, source.device()));
    return layout;
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
  static constexpr char kWorkName[] = "row_work", kWideWorkName[] = "wide_row_work";
  static BinnedRowsConfig ConfigOf(const KernelConfig& config) { return {config.values[0], config.values[1] != 0}; }
};

class BinnedSparseUpdate final : public CudaWeightedKernel<SparseUpdateKernel> {
 public:
  BinnedSparseUpdate() : CudaWeightedKernel("binned_rows") {}
  DeclaredOrder declared_order() const override { return {"row_parts", 1, true}; }
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
    // Without a work list, as every set of features would need its own.
    return LaunchBinnedRows(product, nullptr, {}, {}, target, nullptr);
  }
};

}  // namespace

void AddBinnedRows(KernelRegistry& registry) { registry.aggregate.Add(std::make_unique<BinnedRowsKernel>()); }
void AddBinnedSparseUpdate(KernelRegistry& registry) {
  registry.sparse_update.Add(std::make_unique<BinnedSparseUpdate>());
}

}  // namespace vicinal::cuda
