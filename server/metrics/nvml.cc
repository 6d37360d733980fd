// SPDX-License-Identifier: Apache-2.0
// The interface of NVML (NVIDIA Management Library API Reference, "Device Queries"), as far as it is used: NVML keeps
// it across versions, and its header is part of CUDA, which a build does not need.
#include "server/metrics/nvml.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace vicinal::server {
namespace {

using Gpu = void*;
using Result = int;  // 0: success

struct MemoryInfo {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
constexpr unsigned kMemoryInfoVersion = sizeof(MemoryInfo) | 2U << 24U;

struct Rates {
  unsigned gpu, memory;  // percent
};

constexpr int kMultiprocessorClock = 1, kMemoryClock = 2;
constexpr int kCorrected = 0, kUncorrected = 1;  // kinds of errors
constexpr int kSinceDriverLoad = 0;
constexpr int kGpuSensor = 0;
constexpr double kHertzPerMegahertz = 1e6;

Status NotAvailable(const std::string& why) {
  return absl::FailedPreconditionError(absl::StrCat("there are no vicinal_gpu_ metrics: ", why));  // for the log alone
}

int64_t Whole(unsigned long long value) { return static_cast<int64_t>(value); }

}  // namespace

struct Nvml::Functions {
  Result (*init)() = nullptr;
  Result (*shutdown)() = nullptr;
  const char* (*error_string)(Result) = nullptr;
  Result (*handle_by_pci)(const char*, Gpu*) = nullptr;
  // Null where the driver's library has none: what they tell is then absent.
  Result (*memory)(Gpu, MemoryInfo*) = nullptr;
  Result (*rates)(Gpu, Rates*) = nullptr;
  Result (*clock)(Gpu, int, unsigned*) = nullptr;
  Result (*max_clock)(Gpu, int, unsigned*) = nullptr;
  Result (*slowdowns)(Gpu, unsigned long long*) = nullptr;
  Result (*ecc_errors)(Gpu, int, int, unsigned long long*) = nullptr;
  Result (*remapped_rows)(Gpu, unsigned*, unsigned*, unsigned*, unsigned*) = nullptr;
  Result (*temperature)(Gpu, int, unsigned*) = nullptr;
  Result (*power)(Gpu, unsigned*) = nullptr;

  std::optional<GpuState::Memory> Memory(Gpu gpu) const {
    MemoryInfo info = {kMemoryInfoVersion, 0, 0, 0, 0};
    if (memory == nullptr || memory(gpu, &info) != 0) return std::nullopt;
    return GpuState::Memory{Whole(info.used), Whole(info.free), Whole(info.reserved)};
  }

  std::optional<GpuState::Utilisation> Utilisation(Gpu gpu) const {
    Rates percent = {};
    if (rates == nullptr || rates(gpu, &percent) != 0) return std::nullopt;
    return GpuState::Utilisation{percent.gpu / 100.0, percent.memory / 100.0};
  }

  std::optional<GpuState::Clocks> Clocks(Gpu gpu) const {
    unsigned megahertz[4] = {};
    if (clock == nullptr || max_clock == nullptr || clock(gpu, kMultiprocessorClock, &megahertz[0]) != 0 ||
        clock(gpu, kMemoryClock, &megahertz[1]) != 0 || max_clock(gpu, kMultiprocessorClock, &megahertz[2]) != 0 ||
        max_clock(gpu, kMemoryClock, &megahertz[3]) != 0) {
      return std::nullopt;
    }
    return GpuState::Clocks{megahertz[0] * kHertzPerMegahertz, megahertz[1] * kHertzPerMegahertz,
                            megahertz[2] * kHertzPerMegahertz, megahertz[3] * kHertzPerMegahertz};
  }

  std::optional<uint64_t> Slowdowns(Gpu gpu) const {
    unsigned long long bits = 0;
    if (slowdowns == nullptr || slowdowns(gpu, &bits) != 0) return std::nullopt;
    return bits;
  }

  std::optional<GpuState::Errors> Errors(Gpu gpu) const {
    unsigned long long corrected = 0, uncorrected = 0;
    if (ecc_errors == nullptr || ecc_errors(gpu, kCorrected, kSinceDriverLoad, &corrected) != 0 ||
        ecc_errors(gpu, kUncorrected, kSinceDriverLoad, &uncorrected) != 0) {
      return std::nullopt;
    }
    return GpuState::Errors{Whole(corrected), Whole(uncorrected)};
  }

  std::optional<GpuState::RemappedRows> RemappedRows(Gpu gpu) const {
    unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
    if (remapped_rows == nullptr || remapped_rows(gpu, &corrected, &uncorrected, &pending, &failed) != 0)
      return std::nullopt;
    return GpuState::RemappedRows{corrected, uncorrected, pending != 0, failed != 0};
  }

  std::optional<double> Celsius(Gpu gpu) const {
    unsigned celsius = 0;
    if (temperature == nullptr || temperature(gpu, kGpuSensor, &celsius) != 0) return std::nullopt;
    return celsius;
  }

  std::optional<double> Watts(Gpu gpu) const {
    unsigned milliwatts = 0;
    if (power == nullptr || power(gpu, &milliwatts) != 0) return std::nullopt;
    return milliwatts / 1000.0;
  }
};

Nvml::Nvml() : functions_(std::make_unique<Functions>()) {}

Nvml::~Nvml() {
  if (gpu_ != nullptr) functions_->shutdown();
  if (library_ != nullptr) dlclose(library_);
}

Status Nvml::FindFunctions(const std::string& library) {
  library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) return NotAvailable(dlerror());
  const auto find = [this](const char* name, auto* function) {
    *reinterpret_cast<void**>(function) = dlsym(library_, name);
    return *function != nullptr;
  };
  Functions& nvml = *functions_;
  if (!find("nvmlInit_v2", &nvml.init) || !find("nvmlShutdown", &nvml.shutdown) ||
      !find("nvmlErrorString", &nvml.error_string) || !find("nvmlDeviceGetHandleByPciBusId_v2", &nvml.handle_by_pci)) {
    return NotAvailable(absl::StrCat(library, " lacks a function of NVML"));
  }
  find("nvmlDeviceGetMemoryInfo_v2", &nvml.memory);
  find("nvmlDeviceGetUtilizationRates", &nvml.rates);
  find("nvmlDeviceGetClockInfo", &nvml.clock);
  find("nvmlDeviceGetMaxClockInfo", &nvml.max_clock);
  find("nvmlDeviceGetCurrentClocksThrottleReasons", &nvml.slowdowns);
  find("nvmlDeviceGetTotalEccErrors", &nvml.ecc_errors);
  find("nvmlDeviceGetRemappedRows", &nvml.remapped_rows);
  find("nvmlDeviceGetTemperature", &nvml.temperature);
  find("nvmlDeviceGetPowerUsage", &nvml.power);
  return OkStatus();
}

StatusOr<std::unique_ptr<Nvml>> Nvml::Open(const std::string& pci_address, const std::string& library) {
  std::unique_ptr<Nvml> nvml(new Nvml());
  VICINAL_RETURN_IF_ERROR(nvml->FindFunctions(library));
  const Functions& functions = *nvml->functions_;
  if (const Result result = functions.init(); result != 0)
    return NotAvailable(absl::StrCat("NVML does not start: ", functions.error_string(result)));
  Gpu gpu = nullptr;
  if (const Result result = functions.handle_by_pci(pci_address.c_str(), &gpu); result != 0) {
    functions.shutdown();
    return NotAvailable(
        absl::StrCat("NVML does not find the GPU at ", pci_address, ": ", functions.error_string(result)));
  }
  nvml->gpu_ = gpu;
  return nvml;
}

GpuState Nvml::Read() const {
  const Functions& nvml = *functions_;
  return {nvml.Memory(gpu_), nvml.Utilisation(gpu_),  nvml.Clocks(gpu_),  nvml.Slowdowns(gpu_),
          nvml.Errors(gpu_), nvml.RemappedRows(gpu_), nvml.Celsius(gpu_), nvml.Watts(gpu_)};
}

std::shared_ptr<const Nvml> OpenNvml(const DeviceInfo& device, Logger& log) {
  if (device.pci_address.empty()) return nullptr;
  StatusOr<std::unique_ptr<Nvml>> nvml = Nvml::Open(device.pci_address);
  if (nvml.ok()) return *std::move(nvml);
  log.Log(LogLevel::kInfo, std::string(nvml.status().message()), LogFields{{"device", device.name}});
  return nullptr;
}

}  // namespace vicinal::server
