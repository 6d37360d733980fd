// SPDX-License-Identifier: Apache-2.0
#include "server/metrics/nvml.h"

#include <gtest/gtest.h>

#include <set>

#include "server/metrics/metrics.h"

namespace vicinal::server {
namespace {

constexpr char kAddress[] = "0000:17:00.0";

// The lines of a scrape that begin with vicinal_gpu_.
std::set<std::string> GpuLines(const char* library) {
  Metrics metrics({});
  StatusOr<std::unique_ptr<Nvml>> nvml = Nvml::Open(kAddress, library);
  EXPECT_TRUE(nvml.ok()) << nvml.status();
  if (nvml.ok()) metrics.SetDevice("cuda:0", *std::move(nvml));
  std::set<std::string> lines;
  const std::string text = metrics.Text();
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    if (line.rfind("vicinal_gpu_", 0) == 0) lines.insert(line);
    at = end + 1;
  }
  return lines;
}

TEST(NvmlTest, AScrapeHasTheStateOfTheGpu) {
  EXPECT_EQ(GpuLines(FAKE_NVML),
            (std::set<std::string>{"vicinal_gpu_memory_bytes{device=\"cuda:0\",kind=\"used\"} 399",
                                   "vicinal_gpu_memory_bytes{device=\"cuda:0\",kind=\"free\"} 600",
                                   "vicinal_gpu_memory_bytes{device=\"cuda:0\",kind=\"reserved\"} 1",
                                   "vicinal_gpu_utilisation_ratio{device=\"cuda:0\",unit=\"kernels\"} 0.75",
                                   "vicinal_gpu_utilisation_ratio{device=\"cuda:0\",unit=\"memory\"} 0.5",
                                   "vicinal_gpu_clock_hertz{device=\"cuda:0\",unit=\"multiprocessors\"} 1980000000",
                                   "vicinal_gpu_clock_hertz{device=\"cuda:0\",unit=\"memory\"} 3201000000",
                                   "vicinal_gpu_max_clock_hertz{device=\"cuda:0\",unit=\"multiprocessors\"} 2000000000",
                                   "vicinal_gpu_max_clock_hertz{device=\"cuda:0\",unit=\"memory\"} 3300000000",
                                   "vicinal_gpu_slowed_down{device=\"cuda:0\",reason=\"power_cap\"} 1",
                                   "vicinal_gpu_slowed_down{device=\"cuda:0\",reason=\"hardware\"} 0",
                                   "vicinal_gpu_slowed_down{device=\"cuda:0\",reason=\"software_thermal\"} 0",
                                   "vicinal_gpu_slowed_down{device=\"cuda:0\",reason=\"hardware_thermal\"} 1",
                                   "vicinal_gpu_slowed_down{device=\"cuda:0\",reason=\"hardware_power\"} 0",
                                   "vicinal_gpu_temperature_celsius{device=\"cuda:0\"} 61",
                                   "vicinal_gpu_power_watts{device=\"cuda:0\"} 345.6",
                                   "vicinal_gpu_memory_errors_total{device=\"cuda:0\",kind=\"corrected\"} 7",
                                   "vicinal_gpu_memory_errors_total{device=\"cuda:0\",kind=\"uncorrected\"} 2",
                                   "vicinal_gpu_remapped_rows{device=\"cuda:0\",kind=\"corrected\"} 3",
                                   "vicinal_gpu_remapped_rows{device=\"cuda:0\",kind=\"uncorrected\"} 4",
                                   "vicinal_gpu_remapping{device=\"cuda:0\",state=\"pending\"} 1",
                                   "vicinal_gpu_remapping{device=\"cuda:0\",state=\"failed\"} 0"}));
}

TEST(NvmlTest, WhatAGpuDoesNotTellIsAbsent) {
  EXPECT_EQ(GpuLines(POOR_NVML), (std::set<std::string>{"vicinal_gpu_memory_bytes{device=\"cuda:0\",kind=\"used\"} 399",
                                                        "vicinal_gpu_memory_bytes{device=\"cuda:0\",kind=\"free\"} 600",
                                                        "vicinal_gpu_memory_bytes{device=\"cuda:0\",kind=\"reserved\"} "
                                                        "1"}));
}

void ExpectRefused(const std::string& address, const std::string& library, const std::string& why) {
  const auto nvml = Nvml::Open(address, library);
  ASSERT_FALSE(nvml.ok());
  EXPECT_EQ(nvml.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(nvml.status().message().find(why), std::string::npos) << nvml.status();
}

TEST(NvmlTest, SaysWhyThereIsNone) {
  ExpectRefused(kAddress, "libno-such-nvml.so.1", "libno-such-nvml.so.1: cannot open shared object file");
  ExpectRefused(kAddress, "libm.so.6", "libm.so.6 lacks a function of NVML");
  ExpectRefused("0000:18:00.0", FAKE_NVML, "does not find the GPU at 0000:18:00.0: Not Found");
}

}  // namespace
}  // namespace vicinal::server
