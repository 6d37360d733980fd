// SPDX-License-Identifier: Apache-2.0
// A backend whose device has memory of its own, without a GPU: for tests of what leaves a device and returns.
#include <memory>

#include "engine/kernels/backend.h"
#include "tests/engine/plan/own_memory_device.h"

namespace vicinal::testing {
namespace {

int DeviceCount() { return 1; }

StatusOr<std::unique_ptr<Device>> OpenDevice(int, const DeviceLimits&) {
  return std::unique_ptr<Device>(std::make_unique<OwnMemoryDevice>());
}

void RegisterKernels(KernelRegistry& there, Device*) {
  static const KernelRegistry* const cpu = [] {
    auto* const registry = new KernelRegistry;  // as long as the kernels that refer to it: until the process ends
    RegisterCpuKernels(*registry);
    return registry;
  }();
  AddKernelsThere(cpu->aggregate, &there.aggregate);
  AddKernelsThere(cpu->dense_update, &there.dense_update);
  AddKernelsThere(cpu->sparse_update, &there.sparse_update);
  AddKernelsThere(cpu->rowwise, &there.rowwise);
}

const BackendTable kTable = {kBackendInterfaceVersion, BackendBuildId(), "own memory", &DeviceCount, &OpenDevice,
                             &RegisterKernels};

}  // namespace
}  // namespace vicinal::testing

extern "C" const vicinal::BackendTable* vicinal_backend() { return &vicinal::testing::kTable; }
