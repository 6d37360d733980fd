// SPDX-License-Identifier: Apache-2.0
// tensor_tiles as a kernel of the operation dense_update, for requests that allow rounded factors.
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/cuda/dense/dense_kernel.h"
#include "engine/cuda/dense/tensor_tiles/tensor_tiles.h"
#include "engine/cuda/runtime/cuda_kernel.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda {
namespace {

class TensorTiles final : public DenseProduct {
 public:
  explicit TensorTiles(const GpuLimits& limits) : DenseProduct("tensor_tiles"), limits_(limits) {}
  Refusal WhyUnfit() const override {
    return limits_.narrow_products() ? Refusal() : "its tensor cores need code for compute capability 8.0";
  }
  Refusal WhyUnsupported(const DenseUpdateProblem& problem) const override {
    if (Refusal refusal = WhyUnfit(); !refusal.empty()) return refusal;
    if (problem.precision == ProductPrecision::kFloat32) return "only where a request lets factors be rounded";
    return WhyWidthUnsupported(problem.out_width);
  }
  DeclaredOrder declared_order() const override { return {"tensor_products", 1}; }
  std::vector<int64_t> OrderParameters(const DenseUpdateProblem& problem, const KernelConfig&) const override {
    return {static_cast<int64_t>(problem.precision)};
  }

 protected:
  cudaError_t Launch(const DenseUpdateArgs& args, const LaunchTarget& target, void*) const override {
    return LaunchTensorTiles(args, target);
  }

 private:
  const GpuLimits limits_;
};

}  // namespace

void AddTensorTiles(KernelRegistry& registry, const GpuLimits& limits) {
  registry.dense_update.Add(std::make_unique<TensorTiles>(limits));
}

}  // namespace vicinal::cuda
