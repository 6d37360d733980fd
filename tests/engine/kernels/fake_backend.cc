// SPDX-License-Identifier: Apache-2.0
// A backend without a GPU, built several times: a good one, and ones that are wrong in one way each
// (FAKE_BACKEND_FAULT).
#include <memory>
#include <string>

#include "engine/base/error.h"
#include "engine/kernels/backend.h"

namespace {

class FakeAggregate final : public vicinal::AggregateKernel {
 public:
  std::string_view name() const override { return "fake"; }
  vicinal::DeviceKind device() const override { return vicinal::DeviceKind::kCuda; }
  vicinal::Refusal Refuses(const vicinal::AggregateProblem&) const override { return {}; }
  vicinal::Status Run(vicinal::DeviceContext&, const vicinal::AggregateArgs&, void*) const override {
    return vicinal::OkStatus();
  }
};

int DeviceCount() { return 1; }
[[maybe_unused]] vicinal::StatusOr<std::unique_ptr<vicinal::Device>> OpenDevice(int ordinal) {
  if (ordinal != 0) return vicinal::NotFound("device", "fake:" + std::to_string(ordinal));
  return vicinal::MakeCpuDevice(1);
}
void RegisterKernels(vicinal::KernelRegistry& registry) { registry.aggregate.Add(std::make_unique<FakeAggregate>()); }

const vicinal::BackendTable kTable = {
#if defined(FAKE_BACKEND_WRONG_VERSION)
    vicinal::kBackendInterfaceVersion + 1,
#else
    vicinal::kBackendInterfaceVersion,
#endif
#if defined(FAKE_BACKEND_WRONG_BUILD)
    "0.0.0 of another compiler",
#else
    vicinal::BackendBuildId(),
#endif
    "fake",
    &DeviceCount,
#if defined(FAKE_BACKEND_EMPTY_ENTRY)
    nullptr,
#else
    &OpenDevice,
#endif
    &RegisterKernels};

}  // namespace

#if defined(FAKE_BACKEND_NO_SYMBOL)
extern "C" const vicinal::BackendTable* another_name() { return &kTable; }
#else
extern "C" const vicinal::BackendTable* vicinal_backend() { return &kTable; }
#endif
