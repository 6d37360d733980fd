// SPDX-License-Identifier: Apache-2.0
// The products with weights, and row-wise work, as kernels of their operations.
#include <memory>

#include "absl/strings/str_cat.h"
#include "engine/cuda/common/kernels.h"
#include "engine/cuda/dense/dense_update.h"
#include "engine/cuda/dense/tensor_rows.h"
#include "engine/cuda/dense/tensor_tiles.h"
#include "engine/cuda/rowwise/rowwise.h"
#include "engine/cuda/runtime/cuda_kernel.h"
#include "engine/cuda/sparse/sparse_aggregate_update.h"
#include "engine/cuda/sparse/sparse_update.h"

namespace vicinal::cuda {
namespace {

// Whether tensor_tiles is known to be faster. On an H200 it takes 21 us in place of 26 for 40,000 x 128 x 64 and 280 in
// place of 480 for 1,900,000 x 64 x 64, but 58 in place of 45 for 19,717 x 500 x 64: a float32 product is then as fast,
// and more exact than was asked for. Where it has to stream its weights, it is measured for 602 inputs alone.
bool IsFasterRounded(const DenseUpdateProblem& problem) {
  const int64_t least_rows = TensorWeightsStay(problem) ? int64_t{1} << 15 : int64_t{1} << 17;
  return problem.precision != ProductPrecision::kFloat32 && problem.rows >= least_rows;
}

// Weights as dense_update.h packs them.
class DenseProduct : public CudaWeightedKernel<DenseUpdateKernel> {
 public:
  using CudaWeightedKernel::CudaWeightedKernel;
  size_t PackedBytes(int64_t out_width, int64_t in_width) const override {
    return static_cast<size_t>(DensePackedFloats(out_width, in_width)) * sizeof(float);
  }
};

class DenseUpdate final : public DenseProduct {
 public:
  DenseUpdate() : DenseProduct("register_tiles") {}
  Refusal WhyUnsupported(const DenseUpdateProblem& problem) const override {
    if (IsFasterRounded(problem)) return "the request lets factors be rounded, and tensor_tiles is faster for so many";
    return WhyWidthUnsupported(problem.out_width);
  }

 protected:
  cudaError_t Launch(const DenseUpdateArgs& args, const LaunchTarget& target, void*) const override {
    return LaunchDenseUpdate(args, target);
  }
};

// Where a request lets factors be rounded.
class TensorTiles final : public DenseProduct {
 public:
  TensorTiles() : DenseProduct("tensor_tiles") {}
  Refusal WhyUnsupported(const DenseUpdateProblem& problem) const override {
    if (problem.precision == ProductPrecision::kFloat32) return "only where a request lets factors be rounded";
    return WhyWidthUnsupported(problem.out_width);
  }
  int64_t ReductionOrder(const DenseUpdateProblem& problem, const KernelConfig&) const override {
    return kTensorTilesOrder + static_cast<int64_t>(problem.precision);
  }

 protected:
  cudaError_t Launch(const DenseUpdateArgs& args, const LaunchTarget& target, void*) const override {
    return LaunchTensorTiles(args, target);
  }
};

class WarpRows final : public CudaWeightedKernel<SparseUpdateKernel> {
 public:
  WarpRows() : CudaWeightedKernel("warp_rows") {}
  Refusal WhyUnsupported(const SparseUpdateProblem& problem) const override {
    if (problem.out_width > kMaxSparseUpdateWidth) {
      return absl::StrCat("only widths up to ", kMaxSparseUpdateWidth, "; this is ", problem.out_width);
    }
    return problem.rows >= kMaxItems ? "only fewer than 2^31 rows" : Refusal();
  }

 protected:
  cudaError_t Launch(const SparseUpdateArgs& args, const LaunchTarget& target, void*) const override {
    return LaunchSparseUpdate(args, target);
  }
};

class SparseAggregateUpdate final : public CudaWeightedKernel<SparseAggregateUpdateKernel> {
 public:
  SparseAggregateUpdate() : CudaWeightedKernel("dense_row") {}
  Refusal WhyUnsupported(const SparseAggregateUpdateProblem& problem) const override {
    if (problem.reduce == Reduce::kMin) return "only sum, mean and max";
    return WhyWidthUnsupported(problem.out_width);
  }
  size_t ScratchBytes(const SparseAggregateUpdateProblem& problem, const KernelConfig&, int) const override {
    return SparseAggregateScratchBytes(problem);
  }

 protected:
  cudaError_t Launch(const SparseAggregateUpdateArgs& args, const LaunchTarget& target, void* scratch) const override {
    return LaunchSparseAggregateUpdate(args, target, scratch);
  }
};

class Rowwise final : public CudaKernel<RowwiseKernel> {
 public:
  Rowwise() : CudaKernel("elements") {}
  Refusal WhyUnsupported(const RowwiseProblem& problem) const override {
    if (problem.kind == RowwiseKind::kNarrow && problem.storage == Storage::kFloat32)
      return "narrows to bfloat16 or float16 only";
    return WhyWidthUnsupported(problem.width);
  }
  size_t ScratchBytes(const RowwiseProblem& problem, const KernelConfig&, int) const override {
    return RowwiseScratchBytes(problem);
  }

 protected:
  cudaError_t Launch(const RowwiseArgs& args, const LaunchTarget& target, void* scratch) const override {
    return LaunchRowwise(args, target, scratch);
  }
};

}  // namespace

std::unique_ptr<const DenseUpdateKernel> MakeTensorTiles() { return std::make_unique<TensorTiles>(); }
std::unique_ptr<const DenseUpdateKernel> MakeDenseUpdate() { return std::make_unique<DenseUpdate>(); }
std::unique_ptr<const SparseUpdateKernel> MakeWarpRows() { return std::make_unique<WarpRows>(); }
std::unique_ptr<const SparseAggregateUpdateKernel> MakeSparseAggregateUpdate() {
  return std::make_unique<SparseAggregateUpdate>();
}
std::unique_ptr<const RowwiseKernel> MakeRowwise() { return std::make_unique<Rowwise>(); }

}  // namespace vicinal::cuda
