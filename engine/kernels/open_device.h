// SPDX-License-Identifier: Apache-2.0
// Finds the device that an engine runs on: the CPU, or one of a backend that is loaded at run time.
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

// `name`: "auto" (the first device of the backend if there is one, else the CPU; which, and why, is logged), "cpu", or
// "cuda:N". The backend's kernels are added to `registry`. `backend_path` empty: libvicinal_cuda.so beside the engine's
// own library. INVALID_ARGUMENT for another name, FAILED_PRECONDITION when a device that was named is not there.
StatusOr<OpenedDevice> OpenDevice(const std::string& name, const std::string& backend_path, int num_threads,
                                  KernelRegistry& registry, Logger& logger);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_KERNELS_OPEN_DEVICE_H_
