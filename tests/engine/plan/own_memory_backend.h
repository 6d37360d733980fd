// SPDX-License-Identifier: Apache-2.0
// What backends over OwnMemoryDevice share: the one device, and the CPU's kernels on it.
#ifndef VICINAL_TESTS_ENGINE_PLAN_OWN_MEMORY_BACKEND_H_
#define VICINAL_TESTS_ENGINE_PLAN_OWN_MEMORY_BACKEND_H_

#include <memory>

#include "engine/kernels/backend.h"
#include "tests/engine/plan/own_memory_device.h"

namespace vicinal::testing {

inline int OneOwnMemoryDevice() { return 1; }

inline StatusOr<std::unique_ptr<Device>> OpenOwnMemoryDevice(int, const DeviceLimits&) {
  return std::unique_ptr<Device>(std::make_unique<OwnMemoryDevice>());
}

inline void RegisterKernelsThere(KernelRegistry& there, Device*) {
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

// The table of a backend with these kernels and, after them, one more of products.
template <class Product>
BackendTable BackendWithProduct(const char* name) {
  const auto register_kernels = [](KernelRegistry& there, Device* device) {
    RegisterKernelsThere(there, device);
    there.dense_update.Add(std::make_unique<Product>());
  };
  return {kBackendInterfaceVersion, BackendBuildId(),     name,
          &OneOwnMemoryDevice,      &OpenOwnMemoryDevice, register_kernels};
}

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_PLAN_OWN_MEMORY_BACKEND_H_
