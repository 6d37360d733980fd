// SPDX-License-Identifier: Apache-2.0
// balanced_rows and row_cache as kernels of the operation aggregate, and balanced_rows as sparse_update: features in
// CSR form times W^T is an aggregation of W^T's rows with the features as weights.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/cuda/balanced_rows.h"
#include "engine/cuda/cuda_kernel.h"
#include "engine/cuda/kernels.h"
#include "engine/cuda/row_cache.h"

namespace vicinal::cuda {
namespace {

Refusal RefusesSize(int64_t rows, int64_t edges, int64_t width) {
  if (width > kMaxWidth) return absl::StrCat("only widths up to ", kMaxWidth, "; this is ", width);
  if (rows >= kMaxItems || edges / 32 >= kMaxItems) return "only graphs of fewer than 2^31 rows and 2^36 edges";
  return {};
}

Refusal RefusesKind(const AggregateProblem& problem) {
  if (problem.storage != Storage::kFloat32) return "only float32 rows";
  if (problem.reduce == Reduce::kMin) return "only sum, mean and max";
  return {};
}

class BalancedRowsKernel final : public CudaKernel<AggregateKernel> {
 public:
  BalancedRowsKernel(std::string name, const BalancedRowsConfig& config)
      : CudaKernel(std::move(name)), config_(config) {}
  Refusal Refuses(const AggregateProblem& problem) const override {
    if (Refusal kind = RefusesKind(problem); !kind.empty()) return kind;
    return RefusesSize(problem.rows, problem.edges, problem.width);
  }
  size_t ScratchBytes(const AggregateProblem& problem, const KernelConfig&, int) const override {
    return config_.split_rows ? BalancedRowsScratch(problem).bytes() : 0;
  }

 protected:
  cudaError_t Launch(const AggregateArgs& args, const LaunchTarget& target, void* scratch) const override {
    return LaunchBalancedRows(args, config_, target, scratch);
  }

 private:
  const BalancedRowsConfig config_;
};

class RowCacheKernel final : public CudaKernel<AggregateKernel> {
 public:
  RowCacheKernel() : CudaKernel("row_cache") {}
  Refusal Refuses(const AggregateProblem& problem) const override {
    if (problem.storage != Storage::kFloat32) return "only float32 rows";
    return RefusesSize(problem.rows, problem.edges, problem.width);
  }
  std::vector<std::string_view> ParameterNames() const override { return {"cf"}; }
  std::vector<KernelConfig> Candidates(const AggregateProblem& problem) const override {
    std::vector<KernelConfig> candidates = {KernelConfig()};
    const int standard = RowCacheCoarsening(problem.width, 0);
    for (const int coarsening : {1, 2, 4}) {
      if (problem.width > 32 && coarsening != standard) candidates.push_back({{coarsening}});
    }
    return candidates;
  }
  int64_t Evaluation(const AggregateProblem&, const KernelConfig&) const override { return kRowCacheEvaluation; }

 protected:
  cudaError_t Launch(const AggregateArgs& args, const LaunchTarget& target, void*) const override {
    return LaunchRowCache(args, {RowCacheCoarsening(args.problem.width, args.config.values[0])}, target);
  }
};

class SparseUpdate final : public CudaWeightedKernel<SparseUpdateKernel> {
 public:
  SparseUpdate() : CudaWeightedKernel("balanced_rows") {}
  Refusal Refuses(const SparseUpdateProblem& problem) const override {
    return RefusesSize(problem.rows, problem.nnz, problem.out_width);
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
    // Rows are not cut: other features than those planned for may have more entries, and no scratch was booked for
    // them.
    return LaunchBalancedRows(product, BalancedRowsConfig{0, false}, target, nullptr);
  }
};

}  // namespace

std::unique_ptr<const AggregateKernel> MakeBalancedRows(std::string name, const BalancedRowsConfig& config) {
  return std::make_unique<BalancedRowsKernel>(std::move(name), config);
}
std::unique_ptr<const AggregateKernel> MakeRowCache() { return std::make_unique<RowCacheKernel>(); }
std::unique_ptr<const SparseUpdateKernel> MakeSparseUpdate() { return std::make_unique<SparseUpdate>(); }

}  // namespace vicinal::cuda
