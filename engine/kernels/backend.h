// SPDX-License-Identifier: Apache-2.0
// A device backend that is loaded at run time (libvicinal_cuda.so): one entry symbol that returns a table, checked
// against an interface version and a build id, because both sides share C++ types. The engine is a shared library that
// the backend links too, so there is one registry (docs/adr/0003-backend-boundary.md says why not to link the backend).
#ifndef VICINAL_ENGINE_KERNELS_BACKEND_H_
#define VICINAL_ENGINE_KERNELS_BACKEND_H_

#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/status.h"
#include "engine/device/device.h"
#include "engine/device/device_limits.h"
#include "engine/kernels/registry.h"

namespace vicinal {

// Raised whenever Device, Kernel, the operations or this table change.
inline constexpr uint32_t kBackendInterfaceVersion = 9;

// Identifies compiler and version of this build; a backend from another build must not be loaded.
const char* BackendBuildId();

struct BackendTable {
  uint32_t interface_version;
  const char* build_id;
  const char* name;  // "cuda"
  // Number of devices that this backend can open now; 0 without a driver or GPU.
  int (*device_count)();
  // The device uses no more than `limits`; the engine sets none.
  StatusOr<std::unique_ptr<Device>> (*open_device)(int ordinal, const DeviceLimits& limits);
  // The kernels for `device`, one of open_device's. Null: for the newest GPU that the backend has code for, so that
  // what kernels declare can be tested without a GPU. They run only while the device lives.
  void (*register_kernels)(KernelRegistry& registry, Device* device);
};

// The entry symbol: `extern "C" const vicinal::BackendTable* vicinal_backend();`
inline constexpr char kBackendEntrySymbol[] = "vicinal_backend";

// A loaded backend. Never unloaded: its kernels may be in use until the process ends.
class Backend {
 public:
  // Opens the library with dlopen. FAILED_PRECONDITION, with the reason: missing library or entry symbol, other
  // interface version or build.
  static StatusOr<std::unique_ptr<Backend>> Load(const std::string& path);
  const BackendTable& table() const { return *table_; }

 private:
  explicit Backend(const BackendTable* table) : table_(table) {}
  const BackendTable* table_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_KERNELS_BACKEND_H_
