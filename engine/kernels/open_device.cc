// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/open_device.h"

#include <dlfcn.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal {
namespace {

constexpr std::string_view kDeviceMissing = "DEVICE_MISSING";
constexpr char kCudaPrefix[] = "cuda:";
constexpr char kBackendFile[] = "libvicinal_cuda.so";

// The backend's library in the folder of the library (or program) that holds this function.
std::string PathBesideEngine() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&PathBesideEngine), &info) == 0 || info.dli_fname == nullptr)
    return kBackendFile;
  const std::string self = info.dli_fname;
  const size_t slash = self.rfind('/');
  return slash == std::string::npos ? std::string(kBackendFile) : self.substr(0, slash + 1) + kBackendFile;
}

Status BackendMissing(const std::string& path, bool beside_engine) {
  return FailedPrecondition(
      "BACKEND_NOT_LOADED",
      beside_engine
          ? absl::StrCat("this installation has no CUDA backend: there is no ", path,
                         "; install or build it, name another with --backend_path, or use the device cpu or auto")
          : absl::StrCat("there is no ", path, " (--backend_path)"));
}

StatusOr<OpenedDevice> OpenBackendDevice(const std::string& path, int ordinal, KernelRegistry& registry) {
  OpenedDevice opened;
  VICINAL_ASSIGN_OR_RETURN(opened.backend, Backend::Load(path));
  const BackendTable& table = opened.backend->table();
  const int count = table.device_count();
  if (count == 0) {
    return FailedPrecondition(kDeviceMissing, absl::StrCat("the backend '", table.name,
                                                           "' finds no device on this machine; use cpu or auto"));
  }
  if (ordinal >= count) {
    return FailedPrecondition(kDeviceMissing, absl::StrCat("no device ", table.name, ":", ordinal,
                                                           "; the backend finds ", count, ", counted from 0"));
  }
  VICINAL_ASSIGN_OR_RETURN(opened.device, table.open_device(ordinal, DeviceLimits()));
  table.register_kernels(registry, opened.device.get());
  return opened;
}

}  // namespace

StatusOr<OpenedDevice> OpenDevice(const std::string& name, const std::string& backend_path, int num_threads,
                                  KernelRegistry& registry, Logger& logger) {
  RegisterCpuKernels(registry);
  const std::string path = backend_path.empty() ? PathBesideEngine() : backend_path;
  const auto cpu = [&] {
    OpenedDevice opened;
    opened.device = MakeCpuDevice(num_threads);
    return opened;
  };
  if (name == "cpu") return cpu();
  if (name == "auto") {
    if (backend_path.empty() && access(path.c_str(), F_OK) != 0) return cpu();  // an installation without a backend
    StatusOr<OpenedDevice> opened = OpenBackendDevice(path, 0, registry);
    if (opened.ok()) return opened;
    // A machine without a device is normal; an installed backend that cannot be loaded deserves a warning.
    const bool expected = DetailOf(opened.status())->reason == kDeviceMissing;
    logger.Log(expected ? LogLevel::kInfo : LogLevel::kWarning, "no device backend, running on the CPU",
               {{"reason", std::string(opened.status().message())}});
    return cpu();
  }
  int ordinal = -1;
  if (name.rfind(kCudaPrefix, 0) != 0 || !absl::SimpleAtoi(name.substr(sizeof(kCudaPrefix) - 1), &ordinal) ||
      ordinal < 0) {
    return InvalidArgument("BAD_DEVICE", "device",
                           absl::StrCat("'", name, "' is not a device; use auto, cpu, or cuda:N"));
  }
  if (access(path.c_str(), F_OK) != 0) return BackendMissing(path, backend_path.empty());
  return OpenBackendDevice(path, ordinal, registry);
}

}  // namespace vicinal
