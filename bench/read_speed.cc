// SPDX-License-Identifier: Apache-2.0
#include "bench/read_speed.h"

#include <algorithm>
#include <chrono>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/read_speed.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace vicinal::bench::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Sum of `count` floats, a multiple of 8 vectors, with 8 accumulators so that loads and not additions bound it.
float SumFloats(const float* data, size_t count) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  for (size_t i = 0; i + 8 * lanes <= count; i += 8 * lanes) {
    s0 = hn::Add(s0, hn::LoadU(d, data + i));
    s1 = hn::Add(s1, hn::LoadU(d, data + i + lanes));
    s2 = hn::Add(s2, hn::LoadU(d, data + i + 2 * lanes));
    s3 = hn::Add(s3, hn::LoadU(d, data + i + 3 * lanes));
    s4 = hn::Add(s4, hn::LoadU(d, data + i + 4 * lanes));
    s5 = hn::Add(s5, hn::LoadU(d, data + i + 5 * lanes));
    s6 = hn::Add(s6, hn::LoadU(d, data + i + 6 * lanes));
    s7 = hn::Add(s7, hn::LoadU(d, data + i + 7 * lanes));
  }
  s0 = hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), hn::Add(hn::Add(s4, s5), hn::Add(s6, s7)));
  return hn::GetLane(hn::SumOfLanes(d, s0));
}

}  // namespace vicinal::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vicinal::bench {

HWY_EXPORT(SumFloats);

double ReadBytesPerSecond(ThreadPool& pool, size_t working_set, double budget_ms) {
  using Clock = std::chrono::steady_clock;
  constexpr size_t kGrain = 1024;  // floats; a multiple of 8 vectors of every instruction set
  const auto threads = static_cast<size_t>(pool.num_threads());
  const size_t part = std::max<size_t>(1, working_set / sizeof(float) / threads / kGrain) * kGrain;
  const size_t bytes = part * threads * sizeof(float);
  // A small set is read several times within a pass, so that waking the threads does not count.
  const size_t repeats = std::max<size_t>(1, (size_t{64} << 20) / bytes);
  const std::vector<float> data(part * threads, 0.0f);
  std::vector<float> sums(16 * threads, 0.0f);
  const auto pass = [&] {
    pool.ParallelFor(static_cast<int64_t>(threads), [&](int64_t task, int) {
      for (size_t r = 0; r < repeats; ++r) {
        sums[16 * static_cast<size_t>(task)] +=
            HWY_DYNAMIC_DISPATCH(SumFloats)(data.data() + static_cast<size_t>(task) * part, part);
      }
    });
  };
  pass();
  double best = 0, used = 0;
  for (int i = 0; i < 3 || used < budget_ms * 1e-3; ++i) {
    const auto begin = Clock::now();
    pass();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    used += seconds;
    best = std::max(best, static_cast<double>(bytes * repeats) / seconds);
  }
  return best;
}

}  // namespace vicinal::bench
#endif  // HWY_ONCE
