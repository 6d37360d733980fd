// SPDX-License-Identifier: Apache-2.0
#include "server/metrics/gpu_families.h"

#include <utility>

#include "server/metrics/families.h"

namespace vicinal::server {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr std::pair<const char*, GpuSlowdown> kSlowdowns[] = {
    {"power_cap", GpuSlowdown::kPowerCap},
    {"hardware", GpuSlowdown::kHardware},
    {"software_thermal", GpuSlowdown::kSoftwareThermal},
    {"hardware_thermal", GpuSlowdown::kHardwareThermal},
    {"hardware_power", GpuSlowdown::kHardwarePower},
};

// For one scrape of one device.
class Families {
 public:
  explicit Families(const std::string& device) : device_(device) {}

  void Begin(const char* name, const char* help, MetricType type = MetricType::Gauge) {
    families_.push_back(Family(name, help, type));
  }
  void Add(double value) { AddValue(&families_.back(), value, {{"device", device_}}); }
  void Add(const char* label, const char* label_value, double value) {
    AddValue(&families_.back(), value, {{"device", device_}, {label, label_value}});
  }
  std::vector<MetricFamily> Take() { return std::move(families_); }

 private:
  const std::string& device_;
  std::vector<MetricFamily> families_;
};

void AddUse(const GpuState& state, Families* out) {
  if (state.memory) {
    out->Begin("vicinal_gpu_memory_bytes", "Memory of the GPU, of all processes.");
    out->Add("kind", "used", static_cast<double>(state.memory->used));
    out->Add("kind", "free", static_cast<double>(state.memory->free));
    out->Add("kind", "reserved", static_cast<double>(state.memory->reserved));
  }
  if (state.utilisation) {
    out->Begin("vicinal_gpu_utilisation_ratio",
               "Share of time in which kernels ran, and in which memory was read or written.");
    out->Add("unit", "kernels", state.utilisation->kernels);
    out->Add("unit", "memory", state.utilisation->memory);
  }
}

void AddSpeed(const GpuState& state, Families* out) {
  if (state.clocks) {
    out->Begin("vicinal_gpu_clock_hertz", "Clocks of the GPU.");
    out->Add("unit", "multiprocessors", state.clocks->multiprocessors);
    out->Add("unit", "memory", state.clocks->memory);
    out->Begin("vicinal_gpu_max_clock_hertz", "The highest clocks of the GPU.");
    out->Add("unit", "multiprocessors", state.clocks->max_multiprocessors);
    out->Add("unit", "memory", state.clocks->max_memory);
  }
  if (state.slowdowns) {
    out->Begin("vicinal_gpu_slowed_down", "1 while the GPU runs below its clocks for this reason.");
    for (const auto& [reason, bit] : kSlowdowns)
      out->Add("reason", reason, (*state.slowdowns & static_cast<uint64_t>(bit)) != 0 ? 1.0 : 0.0);
  }
  if (state.celsius) {
    out->Begin("vicinal_gpu_temperature_celsius", "Temperature of the GPU.");
    out->Add(*state.celsius);
  }
  if (state.watts) {
    out->Begin("vicinal_gpu_power_watts", "Power that the GPU draws.");
    out->Add(*state.watts);
  }
}

void AddErrors(const GpuState& state, Families* out) {
  if (state.errors) {
    out->Begin("vicinal_gpu_memory_errors_total", "Memory errors since the driver was loaded.", MetricType::Counter);
    out->Add("kind", "corrected", static_cast<double>(state.errors->corrected));
    out->Add("kind", "uncorrected", static_cast<double>(state.errors->uncorrected));
  }
  if (state.remapped_rows) {
    out->Begin("vicinal_gpu_remapped_rows", "Rows of memory replaced by spare ones, by the errors that they had.");
    out->Add("kind", "corrected", static_cast<double>(state.remapped_rows->corrected));
    out->Add("kind", "uncorrected", static_cast<double>(state.remapped_rows->uncorrected));
    out->Begin("vicinal_gpu_remapping", "1 while a row awaits a reset of the GPU, or could not be replaced.");
    out->Add("state", "pending", state.remapped_rows->pending ? 1.0 : 0.0);
    out->Add("state", "failed", state.remapped_rows->failed ? 1.0 : 0.0);
  }
}

}  // namespace

std::vector<MetricFamily> GpuFamilies(const GpuState& state, const std::string& device) {
  Families families(device);
  AddUse(state, &families);
  AddSpeed(state, &families);
  AddErrors(state, &families);
  return families.Take();
}

}  // namespace vicinal::server
