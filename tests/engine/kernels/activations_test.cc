// SPDX-License-Identifier: Apache-2.0
// Activations, to a few units in the last place.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "tests/engine/kernels/rowwise_testing.h"
#include "tests/engine/kernels/zoo.h"

namespace vicinal::testing {
namespace {

constexpr double kUnit = 0x1p-24;

// Relative error in units of 2^-24 against the C library in extended precision.
TEST(Activations, AccurateOverTheWholeRange) {
  struct Reference {
    Activation activation;
    std::function<long double(long double)> f;
  };
  const Reference references[] = {
      {{ActivationKind::kElu, 1.0f}, [](long double x) { return x > 0 ? x : std::expm1(x); }},
      {{ActivationKind::kSigmoid, 0}, [](long double x) { return 1 / (1 + std::exp(-x)); }},
      {{ActivationKind::kTanh, 0}, [](long double x) { return std::tanh(x); }}};
  std::vector<float> inputs = {0.0f, -0.0f};
  for (float x = 1e-30f; x < 80.0f; x *= 1.0137f) inputs.insert(inputs.end(), {x, -x});
  ForEachKernel([&](const auto& kernel) {
    for (const Reference& reference : references) {
      TestMatrix a(1, static_cast<int64_t>(inputs.size()), 1), dst = a;
      for (size_t c = 0; c < inputs.size(); ++c) a.view().row(0)[c] = inputs[c];
      RowwiseArgs args;
      args.problem = {RowwiseKind::kAdd, Reduce::kSum, 1, a.cols()};
      args.a = a.view();
      args.dst = dst.view();
      args.epilogue.activation = reference.activation;
      ASSERT_TRUE(Launch(kernel, args).ok());
      for (size_t c = 0; c < inputs.size(); ++c) {
        const long double want = reference.f(inputs[c]);
        ASSERT_NEAR(dst.at(0, c), want, 6 * kUnit * std::abs(want))
            << ToString(reference.activation.kind) << " of " << inputs[c];
      }
    }
  });
}

TEST(Activations, KeepNanAndTakeInfinity) {
  ForEachKernel([](const auto& kernel) {
    for (const ActivationKind kind : {ActivationKind::kRelu, ActivationKind::kElu, ActivationKind::kLeakyRelu,
                                      ActivationKind::kSigmoid, ActivationKind::kTanh}) {
      TestMatrix a(1, 40, 1), dst = a;
      a.view().row(0)[7] = std::nanf("");
      a.view().row(0)[8] = HUGE_VALF;
      a.view().row(0)[9] = -HUGE_VALF;
      RowwiseArgs args;
      args.problem = {RowwiseKind::kAdd, Reduce::kSum, 1, 40};
      args.a = a.view();
      args.dst = dst.view();
      args.epilogue.activation = {kind, 0.5f};
      ASSERT_TRUE(Launch(kernel, args).ok());
      EXPECT_TRUE(std::isnan(dst.at(0, 7))) << ToString(kind);
      const bool bounded = kind == ActivationKind::kSigmoid || kind == ActivationKind::kTanh;
      EXPECT_EQ(dst.at(0, 8), bounded ? 1.0f : HUGE_VALF) << ToString(kind);
      const float low = kind == ActivationKind::kRelu || kind == ActivationKind::kSigmoid ? 0.0f
                        : kind == ActivationKind::kElu                                    ? -0.5f
                        : kind == ActivationKind::kTanh                                   ? -1.0f
                                                                                          : -HUGE_VALF;
      EXPECT_EQ(dst.at(0, 9), low) << ToString(kind);
      for (int64_t c = 10; c < 40; ++c) EXPECT_TRUE(std::isfinite(dst.at(0, c)));
    }
  });
}

}  // namespace
}  // namespace vicinal::testing
