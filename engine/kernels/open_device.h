// SPDX-License-Identifier: Apache-2.0
// Opens the device of an engine: the CPU, or a device of a backend that is loaded at run time.
#ifndef VICINAL_ENGINE_KERNELS_OPEN_DEVICE_H_
#define VICINAL_ENGINE_KERNELS_OPEN_DEVICE_H_

#include <memory>
#include <string>

#include "engine/base/log.h"
#include "engine/base/status.h"
#include "engine/device/device.h"
#include "engine/kernels/backend.h"
#include "engine/kernels/registry.h"

namespace vicinal {

struct OpenedDevice {
  std::unique_ptr<Backend> backend;  // null: none was loaded
  std::unique_ptr<Device> device;
};

// `name`: "auto" (the first device of the backend, or the CPU if there is none; logs the choice and the reason), "cpu",
// or "cuda:N". Adds the backend's kernels to `registry`. `backend_path` empty: libvicinal_cuda.so next to the engine's
// own library. INVALID_ARGUMENT: invalid name. FAILED_PRECONDITION: the named device does not exist.
StatusOr<OpenedDevice> OpenDevice(const std::string& name, const std::string& backend_path, int num_threads,
                                  KernelRegistry& registry, Logger& logger);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_KERNELS_OPEN_DEVICE_H_
