// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda/device_speed.h"

#include <algorithm>

#include "bench/cuda/event_timer.h"
#include "bench/cuda/l2_reader.h"
#include "bench/cuda/numbers.h"

namespace vicinal::bench {
namespace {

constexpr int kWarmUp = 2, kRepeats = 10;

double CopySpeed(Gpu& gpu) {
  constexpr size_t kBytes = size_t{2} << 30;
  const Buffer from = gpu.Allocate(kBytes), to = gpu.Allocate(kBytes);
  FillNumbers(from.data(), kBytes / sizeof(float), 0, Storage::kFloat32, gpu.stream());
  const Timing timing = TimeLaunches(gpu.stream(), kWarmUp, kRepeats, 1, [&](int) {
    MustBeOk(cudaMemcpyAsync(to.data(), from.data(), kBytes, cudaMemcpyDeviceToDevice, gpu.stream()), "copy");
  });
  return 2.0 * kBytes / (timing.median_us * 1e-6);
}

// The best of several grid sizes, as the optimum depends on the device.
double L2ReadSpeed(Gpu& gpu) {
  constexpr int64_t kVectors = (int64_t{16} << 20) / 16;
  constexpr int kPasses = 40;
  const Buffer data = gpu.Allocate(kVectors * 16), sink = gpu.Allocate(sizeof(float));
  FillNumbers(data.data(), kVectors * 4, 0, Storage::kFloat32, gpu.stream());
  int processors = 0;
  MustBeOk(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0), "number of multiprocessors");
  double best = 0;
  for (const int per_processor : {1, 2, 3, 4}) {
    const Timing timing = TimeLaunches(gpu.stream(), kWarmUp, kRepeats, 1, [&](int) {
      LaunchL2Reader(data.data(), kVectors, kPasses, per_processor * processors, sink.as<float>(), gpu.stream());
    });
    best = std::max(best, 16.0 * kVectors * kPasses / (timing.median_us * 1e-6));
  }
  return best;
}

}  // namespace

DeviceSpeed MeasureSpeed(Gpu& gpu) { return {CopySpeed(gpu), L2ReadSpeed(gpu)}; }

}  // namespace vicinal::bench
