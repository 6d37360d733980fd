// SPDX-License-Identifier: Apache-2.0
// Replaces cusparse_kernel.cc in a build without cuSPARSE headers. The kernel keeps its name and reports why it cannot
// run.
#include <memory>

#include "engine/base/error.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda {
namespace {

class CusparseKernel final : public AggregateKernel {
 public:
  std::string_view name() const override { return "cusparse"; }
  DeviceKind device() const override { return DeviceKind::kCuda; }
  DeclaredOrder declared_order() const override { return {"cusparse", 1}; }
  Refusal WhyUnfit() const override { return "this build was made without cuSPARSE"; }
  Refusal WhyUnsupported(const AggregateProblem&) const override { return WhyUnfit(); }
  Status Run(DeviceContext&, const AggregateArgs&, void*) const override {
    return Internal("a kernel that refused was run");
  }
};

}  // namespace

void AddCusparse(KernelRegistry& registry) { registry.aggregate.Add(std::make_unique<CusparseKernel>()); }

}  // namespace vicinal::cuda
