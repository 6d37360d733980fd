// SPDX-License-Identifier: Apache-2.0
// register_tiles as a kernel of the operation dense_update.
#include <cstdint>
#include <memory>

#include "engine/cuda/dense/dense_kernel.h"
#include "engine/cuda/dense/register_tiles/register_tiles.h"
#include "engine/cuda/dense/tensor_tiles/tensor_tiles.h"
#include "engine/cuda/runtime/cuda_kernel.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda {
namespace {

// True if tensor_tiles is known to be faster. Measured on an H200, tensor_tiles against this kernel: 21 us and 26 for
// 40,000 x 128 x 64; 280 and 480 for 1,900,000 x 64 x 64; but 58 and 45 for 19,717 x 500 x 64, where a float32 product
// is also more exact than requested. If tensor_tiles has to stream its weights, it was measured for 602 inputs only.
bool IsFasterRounded(const DenseUpdateProblem& problem) {
  const int64_t least_rows = TensorWeightsStay(problem) ? int64_t{1} << 15 : int64_t{1} << 17;
  return problem.precision != ProductPrecision::kFloat32 && problem.rows >= least_rows;
}

class RegisterTiles final : public DenseProduct {
 public:
  explicit RegisterTiles(const GpuLimits& limits) : DenseProduct("register_tiles"), limits_(limits) {}
  DeclaredOrder declared_order() const override { return {"ascending_inputs", 1, true}; }
  Refusal WhyUnsupported(const DenseUpdateProblem& problem) const override {
    if (limits_.narrow_products() && IsFasterRounded(problem))
      return "the request lets factors be rounded, and tensor_tiles is faster for so many";
    return WhyWidthUnsupported(problem.out_width);
  }

 protected:
  cudaError_t Launch(const DenseUpdateArgs& args, const LaunchTarget& target, void*) const override {
    return LaunchDenseUpdate(args, target);
  }

 private:
  const GpuLimits limits_;
};

}  // namespace

void AddRegisterTiles(KernelRegistry& registry, const GpuLimits& limits) {
  registry.dense_update.Add(std::make_unique<RegisterTiles>(limits));
}

}  // namespace vicinal::cuda
