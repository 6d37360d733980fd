// SPDX-License-Identifier: Apache-2.0
// State of one NVIDIA GPU, read through NVML, the library that the driver brings (libnvidia-ml.so.1). It is opened at
// run time, so that neither building nor running without a GPU needs it. Internal to metrics/.
#ifndef VICINAL_SERVER_METRICS_NVML_H_
#define VICINAL_SERVER_METRICS_NVML_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/api/resources.h"
#include "engine/base/log.h"
#include "engine/base/status.h"

namespace vicinal::server {

// What a GPU told of itself. Each part is absent where the GPU, or the driver, does not tell: few GPUs for games count
// memory errors, and a slice of a GPU (MIG) has no utilisation.
struct GpuState {
  struct Memory {  // bytes; of all processes
    int64_t used, free, reserved;
  };
  struct Utilisation {  // 0 to 1, over the driver's last sample (at most a second)
    double kernels;     // the share of time in which a kernel ran
    double memory;      // the share of time in which memory was read or written
  };
  struct Clocks {  // hertz
    double multiprocessors, memory, max_multiprocessors, max_memory;
  };
  struct Errors {  // since the driver was loaded
    int64_t corrected, uncorrected;
  };
  struct RemappedRows {  // rows of memory replaced by spare ones
    int64_t corrected, uncorrected;
    bool pending;  // a reset of the GPU will replace another one
    bool failed;   // no spare one was left
  };
  std::optional<Memory> memory;
  std::optional<Utilisation> utilisation;
  std::optional<Clocks> clocks;
  std::optional<uint64_t> slowdowns;  // bits of GpuSlowdown
  std::optional<Errors> errors;
  std::optional<RemappedRows> remapped_rows;
  std::optional<double> celsius;
  std::optional<double> watts;
};

// Why a GPU runs below its clocks. NVML's bits.
enum class GpuSlowdown : uint64_t {
  kPowerCap = 0x4,          // it would exceed its power limit
  kHardware = 0x8,          // one of the hardware's reasons, or an external signal
  kSoftwareThermal = 0x20,  // the driver: GPU or memory too hot
  kHardwareThermal = 0x40,  // the hardware: much too hot
  kHardwarePower = 0x80,    // the power supply asked for it
};

// Thread-safe.
class Nvml {
 public:
  // `pci_address`: as CUDA writes it, for example "0000:17:00.0". FAILED_PRECONDITION with the reason:
  // no library, another one, or no such GPU.
  static StatusOr<std::unique_ptr<Nvml>> Open(const std::string& pci_address,
                                              const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();

  // Takes some milliseconds at most while the driver is well.
  GpuState Read() const;

 private:
  struct Functions;
  Nvml();
  Status FindFunctions(const std::string& library);

  void* library_ = nullptr;
  std::unique_ptr<Functions> functions_;
  void* gpu_ = nullptr;  // NVML's handle
};

// Null for the CPU and, with a line in the log, where NVML does not read the device.
std::shared_ptr<const Nvml> OpenNvml(const DeviceInfo& device, Logger& log);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_METRICS_NVML_H_
