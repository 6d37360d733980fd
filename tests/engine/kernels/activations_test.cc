// SPDX-License-Identifier: Apache-2.0
// Activations, to a few units in the last place.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
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
      {{ActivationKind::kTanh, 0}, [](long double x) { return std::tanh(x); }},
      {{ActivationKind::kSilu, 0}, [](long double x) { return x / (1 + std::exp(-x)); }},
      {{ActivationKind::kSoftplus, 1e30f}, [](long double x) { return std::log1p(std::exp(x)); }},
      {{ActivationKind::kSoftplus, 2.0f}, [](long double x) { return x > 2 ? x : std::log1p(std::exp(x)); }},
      {{ActivationKind::kMish, 0}, [](long double x) { return x * std::tanh(std::log1p(std::exp(x))); }},
      {{ActivationKind::kSoftsign, 0}, [](long double x) { return x / (1 + std::abs(x)); }},
      {{ActivationKind::kClamp, -0.7f, 2.0f}, [](long double x) { return std::clamp(x, -0.7L, 2.0L); }},
      {{ActivationKind::kThreshold, 0.3f, 7.0f}, [](long double x) { return x > 0.3f ? x : 7.0L; }},
      {{ActivationKind::kHardShrink, 0.3f}, [](long double x) { return std::abs(x) > 0.3f ? x : 0.0L; }},
      {{ActivationKind::kExp}, [](long double x) { return std::exp(x); }},
      {{ActivationKind::kRoot, 100.0f}, [](long double x) { return std::sqrt(x + 100); }},
      {{ActivationKind::kInverseRoot, 100.0f}, [](long double x) { return 1 / std::sqrt(x + 100); }},
      {{ActivationKind::kSquare}, [](long double x) { return x * x; }}};
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
        ASSERT_NEAR(dst.at(0, c), want, 6 * kUnit * std::abs(want) + 1e-38L)
            << ToString(reference.activation.kind) << " of " << inputs[c];
      }
    }
  });
}

// Where the result is tiny beside x, the rounding of what is exponentiated shows; the rest is as exact as above.
TEST(Activations, AccurateInTheirTails) {
  struct Reference {
    Activation activation;
    std::function<long double(long double)> f;
  };
  const auto hard_sigmoid = [](long double x) { return std::clamp((x + 3) / 6, 0.0L, 1.0L); };
  const Reference references[] = {
      {{ActivationKind::kGelu}, [](long double x) { return x / 2 * std::erfc(-x / std::sqrt(2.0L)); }},
      {{ActivationKind::kGeluTanh},
       [](long double x) {
         return x / (1 + std::exp(-2 * std::sqrt(2 / std::numbers::pi_v<long double>) * (x + 0.044715L * x * x * x)));
       }},
      {{ActivationKind::kHardSigmoid}, hard_sigmoid},
      {{ActivationKind::kHardSwish}, [&](long double x) { return x * hard_sigmoid(x); }}};
  ForEachKernel([&](const auto& kernel) {
    for (const Reference& reference : references) {
      TestMatrix a(1, 4001, 1), dst = a;
      for (int64_t c = 0; c < 4001; ++c) a.view().row(0)[c] = static_cast<float>(c - 2000) / 137.0f;
      RowwiseArgs args;
      args.problem = {RowwiseKind::kAdd, Reduce::kSum, 1, a.cols()};
      args.a = a.view();
      args.dst = dst.view();
      args.epilogue.activation = reference.activation;
      ASSERT_TRUE(Launch(kernel, args).ok());
      for (int64_t c = 0; c < 4001; ++c) {
        const long double x = a.at(0, c), want = reference.f(x);
        // Half of x^2 is exponentiated, and rounded where there is no fused multiplication.
        const bool squares = reference.activation.kind == ActivationKind::kGelu;
        const bool doubles = reference.activation.kind == ActivationKind::kGeluTanh;
        const long double units = 12 + x * x * (doubles ? 2 : squares ? 1 : 0);
        // A hard sigmoid is a difference near -3.
        const long double near_zero = reference.activation.kind >= ActivationKind::kHardSigmoid ? 1e-6L : 1e-37L;
        ASSERT_NEAR(dst.at(0, c), want, units * kUnit * std::abs(want) + near_zero)
            << ToString(reference.activation.kind) << " of " << static_cast<double>(x);
      }
    }
  });
}

TEST(Activations, KeepNan) {
  ForEachKernel([](const auto& kernel) {
    for (int kind = 0; kind <= static_cast<int>(ActivationKind::kSquare); ++kind) {
      TestMatrix a(1, 40, 1), dst = a;
      for (int64_t c = 0; c < 40; ++c) a.view().row(0)[c] = std::abs(a.at(0, c));  // for roots
      a.view().row(0)[7] = std::nanf("");
      RowwiseArgs args;
      args.problem = {RowwiseKind::kAdd, Reduce::kSum, 1, 40};
      args.a = a.view();
      args.dst = dst.view();
      args.epilogue.activation = {static_cast<ActivationKind>(kind), 0.5f, 0.9f};
      ASSERT_TRUE(Launch(kernel, args).ok());
      for (int64_t c = 0; c < 40; ++c) EXPECT_EQ(std::isnan(dst.at(0, c)), c == 7) << kind << ", column " << c;
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
