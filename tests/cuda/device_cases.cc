// SPDX-License-Identifier: Apache-2.0
// The device layer: accounting, copies larger than the staging, an allocation that cannot be met.
#include <cstdint>
#include <vector>

#include "tests/cuda/cases.h"

namespace vicinal::cuda_test {

void RunDeviceCases(Gpu& gpu, Report& report) {
  Device& device = *gpu.device;
  report.CheckTrue("device", "kind", device.kind() == DeviceKind::kCuda && device.name().rfind("cuda:", 0) == 0);
  report.CheckTrue("device", "has a description", !device.description().empty());
  const int64_t before = device.allocated_bytes();
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{4} << 20, (size_t{9} << 20) + 3, size_t{40} << 20}) {
    std::vector<char> sent(bytes);
    for (size_t i = 0; i < bytes; ++i) sent[i] = static_cast<char>(i * 2654435761u >> 13);
    const DeviceArray<char> array(device, sent);
    report.CheckTrue("device", "bytes are counted", device.allocated_bytes() == before + static_cast<int64_t>(bytes));
    report.CheckTrue("device", "what is sent comes back", array.Download(device) == sent);
    report.CheckTrue("device", "aligned to 64 bytes", reinterpret_cast<uintptr_t>(array.data()) % 64 == 0);
  }
  report.CheckTrue("device", "freed bytes are counted", device.allocated_bytes() == before);
  const auto too_much = device.Allocate(size_t{1} << 46);
  report.CheckTrue("device", "64 TiB are refused with RESOURCE_EXHAUSTED",
                   too_much.status().code() == StatusCode::kResourceExhausted);
  report.CheckTrue("device", "and the device goes on", device.Allocate(1024).ok() && gpu.context->Synchronize().ok());
  const std::unique_ptr<DeviceContext> second = device.CreateContext();
  report.CheckTrue("device", "a second context", second->Synchronize().ok() && second->thread_pool() == nullptr);
}

}  // namespace vicinal::cuda_test
