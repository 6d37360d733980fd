// SPDX-License-Identifier: Apache-2.0
// Replaces cublas_kernel.cc in a build without cuBLASLt headers. The kernel keeps its name and reports why it cannot
// run.
#include <memory>

#include "engine/base/error.h"
#include "engine/cuda/runtime/cuda_device.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda {
namespace {

class CublasKernel final : public DenseUpdateKernel {
 public:
  std::string_view name() const override { return "cublas"; }
  DeviceKind device() const override { return DeviceKind::kCuda; }
  DeclaredOrder declared_order() const override { return {"cublas_products", 1}; }
  Refusal WhyUnfit() const override { return "this build was made without cuBLAS"; }
  Refusal WhyUnsupported(const DenseUpdateProblem&) const override { return WhyUnfit(); }
  size_t PackedBytes(int64_t, int64_t) const override { return 0; }
  void Pack(ConstMatrixView, void*) const override {}
  Status Run(DeviceContext&, const DenseUpdateArgs&, void*) const override {
    return Internal("a kernel that refused was run");
  }
};

}  // namespace

void AddCublas(KernelRegistry& registry, CudaDevice*) { registry.dense_update.Add(std::make_unique<CublasKernel>()); }

}  // namespace vicinal::cuda
