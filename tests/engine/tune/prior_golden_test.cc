// SPDX-License-Identifier: Apache-2.0
// Pins what the CPU's kernels predict, and the order in which a trial would take their candidates: a tuner that ranks
// otherwise measures other candidates. The numbers are those of the one model that kernels took their own part of; a
// change of a formula changes them on purpose.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/tune/prior.h"
#include "engine/tune/work.h"
#include "tests/engine/tune/prior_cases.h"

namespace vicinal {
namespace {

using testing::PriorCase;
using testing::PriorGolden;

const PriorGolden kGoldens[] = {
    {0, "simd_rows", {{0, 0, 0, 0, 0}}, 0x1.2c5892ee2a299p-14},
    {0, "simd_rows", {{0, 0, 0, 0, 1}}, 0x1.2c5892ee2a299p-14},
    {0, "tiled_rows", {{2708, 16, 0, 0, 0}}, 0x1.58bf0279b65aep-14},
    {0, "reference", {{0, 0, 0, 0, 0}}, 0x1.2c5892ee2a299p-11},
    {1, "simd_rows", {{0, 0, 0, 0, 0}}, 0x1.22c592d6499dfp-7},
    {1, "simd_rows", {{8, 0, 0, 0, 0}}, 0x1.22c592d6499dfp-7},
    {1, "simd_rows", {{16, 0, 0, 0, 0}}, 0x1.22c592d6499dfp-7},
    {1, "simd_rows", {{0, 0, 0, -1, 0}}, 0x1.22c592d6499dfp-7},
    {1, "tiled_rows", {{100000, 64, 0, 0, 0}}, 0x1.3779a60d0ff01p-7},
    {1, "simd_rows", {{-1, 0, 0, 0, 0}}, 0x1.9079f96a5d42cp-7},
    {1, "tiled_rows", {{100000, 16, 0, 0, 0}}, 0x1.940fa10774248p-7},
    {1, "tiled_rows", {{6144, 32, 0, 0, 0}}, 0x1.31382fe669318p-6},
    {1, "tiled_rows", {{12288, 16, 0, 0, 0}}, 0x1.63be0314dfcabp-6},
    {1, "reference", {{0, 0, 0, 0, 0}}, 0x1.22c592d6499dfp-4},
    {2, "simd_rows", {{0, 0, 0, 0, 0}}, 0x1.523cc3d312e74p-3},
    {2, "tiled_rows", {{20000, 16, 0, 0, 0}}, 0x1.4a416a177b1d2p-3},
    {2, "tiled_rows", {{12288, 16, 0, 0, 0}}, 0x1.4f611671a709bp-3},
    {2, "tiled_rows", {{20000, 32, 0, 0, 0}}, 0x1.4f8d1845f87eap-3},
    {2, "tiled_rows", {{20000, 64, 0, 0, 0}}, 0x1.5232ef5d372f6p-3},
    {2, "simd_rows", {{8, 0, 0, 0, 0}}, 0x1.523cc3d312e74p-3},
    {2, "simd_rows", {{32, 0, 0, 0, 0}}, 0x1.523cc3d312e74p-3},
    {2, "simd_rows", {{0, 0, -1, 0, 0}}, 0x1.523cc3d312e74p-3},
    {2, "simd_rows", {{0, 0, 0, -1, 0}}, 0x1.523cc3d312e74p-3},
    {2, "simd_rows", {{-1, 0, 0, 0, 0}}, 0x1.f50990d6897cep-3},
    {2, "reference", {{0, 0, 0, 0, 0}}, 0x1.523cc3d312e74p+0},
    {3, "simd_rows", {{0, 0, 0, 0, 0}}, 0x1.4abb37565e202p-3},
    {3, "tiled_rows", {{1000000, 64, 0, 0, 0}}, 0x1.212d77318fc51p-3},
    {3, "simd_rows", {{8, 0, 0, 0, 0}}, 0x1.4abb37565e202p-3},
    {3, "simd_rows", {{16, 0, 0, 0, 0}}, 0x1.4abb37565e202p-3},
    {3, "simd_rows", {{0, 0, 0, -1, 0}}, 0x1.4abb37565e202p-3},
    {3, "tiled_rows", {{1000000, 16, 0, 0, 0}}, 0x1.8d89112a7c97dp-3},
    {3, "simd_rows", {{-1, 0, 0, 0, 0}}, 0x1.aed299c0ca096p-3},
    {3, "reference", {{0, 0, 0, 0, 0}}, 0x1.4abb37565e202p+0},
    {3, "tiled_rows", {{6144, 32, 0, 0, 0}}, 0x1.d28d92997d00ap+0},
    {3, "tiled_rows", {{12288, 16, 0, 0, 0}}, 0x1.0d05febbe50a8p+1},
    {4, "simd_rows", {{0, 0, 0, 0, 0}}, 0x1.72cf0530e9954p-6},
    {4, "simd_rows", {{8, 0, 0, 0, 0}}, 0x1.72cf0530e9954p-6},
    {4, "simd_rows", {{16, 0, 0, 0, 0}}, 0x1.72cf0530e9954p-6},
    {4, "simd_rows", {{0, 0, -1, 0, 0}}, 0x1.72cf0530e9954p-6},
    {4, "simd_rows", {{0, 0, 0, -1, 0}}, 0x1.72cf0530e9954p-6},
    {4, "simd_rows", {{-1, 0, 0, 0, 0}}, 0x1.0588828a3b70ap-5},
    {4, "reference", {{0, 0, 0, 0, 0}}, 0x1.72cf0530e9954p-3},
    {5, "simd_rows", {{0, 0, 0, 0, 0}}, 0x1.1f0aef6152cd2p-5},
    {5, "simd_rows", {{0, 0, 0, -1, 0}}, 0x1.1f0aef6152cd2p-5},
    {5, "tiled_rows", {{1000, 64, 0, 0, 0}}, 0x1.1f256f79ead54p-5},
    {5, "tiled_rows", {{1000, 32, 0, 0, 0}}, 0x1.480a3a4333006p-5},
    {5, "tiled_rows", {{1000, 16, 0, 0, 0}}, 0x1.99d3cfd5c356bp-5},
    {5, "reference", {{0, 0, 0, 0, 0}}, 0x1.1f0aef6152cd2p-2},
    {6, "simd_rows", {{0, 0, 0, 0, 0}}, 0x0p+0},
    {6, "simd_rows", {{0, 0, 0, 0, 1}}, 0x0p+0},
    {6, "tiled_rows", {{1, 16, 0, 0, 0}}, 0x0p+0},
    {6, "reference", {{0, 0, 0, 0, 0}}, 0x0p+0},
    {7, "simd_rows", {{0, 0, 0, 0, 0}}, 0x1.a02f106f70d3bp-7},
    {7, "reference", {{0, 0, 0, 0, 0}}, 0x1.a02f106f70d3bp-4},
    {8, "simd_rows", {{0, 0, 0, 0, 0}}, 0x1.5b1e0cbc1e3c7p-6},
    {8, "reference", {{0, 0, 0, 0, 0}}, 0x1.5b1e0cbc1e3c7p-3},
};

struct Predicted {
  std::string kernel;
  KernelConfig config;
  double seconds = 0.0;
};

// Every candidate of every kernel: the default first, then by prediction, as a trial orders them.
std::vector<Predicted> Predict(const KernelRegistry& registry, const PriorCase& c) {
  const WorkShape shape = testing::ShapeOf(c);
  return WithProblem(registry, c.key, c.rows, c.cols, c.edges, [&](const auto& operation, const auto& problem) {
    std::vector<Predicted> all;
    for (const auto& entry : operation.kernels()) {
      const auto& kernel = entry->kernel();
      if (!kernel.WhyUnsupported(problem).empty()) continue;
      for (const KernelConfig& config : kernel.Candidates(problem)) {
        const std::optional<double> seconds = kernel.PredictSeconds(problem, config, shape);
        EXPECT_TRUE(seconds.has_value()) << kernel.name();
        all.push_back({std::string(kernel.name()), config, seconds.value_or(-1.0)});
      }
    }
    std::stable_sort(all.begin() + 1, all.end(),
                     [](const Predicted& a, const Predicted& b) { return a.seconds < b.seconds; });
    return all;
  });
}

TEST(PriorGoldenTest, CpuKernelsPredictWhatTheyAlwaysDid) {
  KernelRegistry registry;
  RegisterCpuKernels(registry);
  const std::vector<PriorCase> cases = testing::CpuPriorCases();
  size_t golden = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    for (const Predicted& got : Predict(registry, cases[i])) {
      ASSERT_LT(golden, std::size(kGoldens));
      const PriorGolden& want = kGoldens[golden];
      EXPECT_EQ(static_cast<int>(i), want.index);
      EXPECT_EQ(got.kernel, want.kernel) << "entry " << golden;
      EXPECT_EQ(got.config, want.config) << "entry " << golden;
      EXPECT_DOUBLE_EQ(got.seconds, want.seconds) << "entry " << golden;
      ++golden;
    }
    const std::optional<double> standard =
        PredictDefaultSeconds(registry, DeviceKind::kCpu, cases[i].key, testing::ShapeOf(cases[i]));
    ASSERT_TRUE(standard.has_value());
    EXPECT_EQ(*standard, Predict(registry, cases[i]).front().seconds);
  }
  EXPECT_EQ(golden, std::size(kGoldens));
}

}  // namespace
}  // namespace vicinal
