// SPDX-License-Identifier: Apache-2.0
// A backend whose device has memory of its own, without a GPU: for tests of what leaves a device and returns.
#include "tests/engine/plan/own_memory_backend.h"

namespace vicinal::testing {
namespace {

const BackendTable kTable = {kBackendInterfaceVersion, BackendBuildId(),     "own memory",
                             &OneOwnMemoryDevice,      &OpenOwnMemoryDevice, &RegisterKernelsThere};

}  // namespace
}  // namespace vicinal::testing

extern "C" const vicinal::BackendTable* vicinal_backend() { return &vicinal::testing::kTable; }
