// SPDX-License-Identifier: Apache-2.0
// The registry: order, choice by refusal, forcing by name, the errors' words, and the counters that prove which kernel
// ran.
#include "engine/kernels/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace vicinal {
namespace {

using ::testing::HasSubstr;

// Takes even widths only, when told so; counts nothing, computes nothing.
class FakeKernel final : public AggregateKernel {
 public:
  FakeKernel(std::string name, bool picky, DeviceKind device = DeviceKind::kCpu)
      : name_(std::move(name)), picky_(picky), device_(device) {}
  std::string_view name() const override { return name_; }
  DeviceKind device() const override { return device_; }
  DeclaredOrder declared_order() const override { return {"even_odd_blocks", 1, true}; }
  Refusal WhyUnsupported(const AggregateProblem& problem) const override {
    return picky_ && problem.width % 2 != 0 ? "only even widths; this is " + std::to_string(problem.width) : "";
  }
  Status Run(DeviceContext&, const AggregateArgs&, void*) const override { return OkStatus(); }

 private:
  const std::string name_;
  const bool picky_;
  const DeviceKind device_;
};

AggregateProblem OfWidth(int64_t width) {
  AggregateProblem problem;
  problem.width = width;
  return problem;
}

class RegistryTest : public ::testing::Test {
 protected:
  RegistryTest() {
    kernels_.Add(std::make_unique<FakeKernel>("elsewhere", false, DeviceKind::kCuda));
    kernels_.Add(std::make_unique<FakeKernel>("picky", true));
    kernels_.Add(std::make_unique<FakeKernel>("modest", false));
  }
  OperationKernels<AggregateKernel> kernels_{"aggregate"};
};

TEST_F(RegistryTest, TheFirstThatTakesTheProblemWins) {
  auto choice = kernels_.Choose(OfWidth(4), DeviceKind::kCpu, "");
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->kernel->kernel().name(), "picky");
  EXPECT_TRUE(choice->refusals.empty());
}

class MultiplyingKernel final : public AggregateKernel {
 public:
  std::string_view name() const override { return "multiplying"; }
  DeviceKind device() const override { return DeviceKind::kCpu; }
  DeclaredOrder declared_order() const override { return {"even_odd_blocks", 1, true}; }
  Refusal WhyUnsupported(const AggregateProblem&) const override { return {}; }
  Refusal WhyProductUnsupported(const AggregateProblem&) const override { return {}; }
  Status Run(DeviceContext&, const AggregateArgs&, void*) const override { return OkStatus(); }
};

TEST_F(RegistryTest, AProductIsForThoseWhoMultiply) {
  AggregateProblem problem = OfWidth(4);
  problem.out_width = 2;
  EXPECT_THAT(kernels_.Choose(problem, DeviceKind::kCpu, "modest").status().message(),
              HasSubstr("modest: it does not multiply what it sums up"));
  kernels_.Add(std::make_unique<MultiplyingKernel>());
  const auto choice = kernels_.Choose(problem, DeviceKind::kCpu, "");
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->kernel->kernel().name(), "multiplying");
  EXPECT_EQ(choice->refusals.size(), 2u);
  EXPECT_EQ(kernels_.Choose(OfWidth(4), DeviceKind::kCpu, "")->kernel->kernel().name(), "picky");
}

TEST_F(RegistryTest, RefusalsOfThoseAskedBeforeAreTold) {
  auto choice = kernels_.Choose(OfWidth(7), DeviceKind::kCpu, "");
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->kernel->kernel().name(), "modest");
  ASSERT_EQ(choice->refusals.size(), 1u);
  EXPECT_EQ(choice->refusals[0].kernel, "picky");
  EXPECT_EQ(choice->refusals[0].reason, "only even widths; this is 7");
}

TEST_F(RegistryTest, AForcedKernelOrNothing) {
  auto choice = kernels_.Choose(OfWidth(4), DeviceKind::kCpu, "modest");
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->kernel->kernel().name(), "modest");

  choice = kernels_.Choose(OfWidth(7), DeviceKind::kCpu, "picky");
  EXPECT_EQ(choice.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(DetailOf(choice.status())->reason, "KERNEL_REFUSED");
  EXPECT_THAT(std::string(choice.status().message()), HasSubstr("picky: only even widths; this is 7"));
}

TEST_F(RegistryTest, AnUnknownNameListsTheKnownOnes) {
  for (const char* name : {"fastest", "elsewhere"}) {
    auto choice = kernels_.Choose(OfWidth(4), DeviceKind::kCpu, name);
    EXPECT_EQ(choice.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(DetailOf(choice.status())->reason, "KERNEL_UNKNOWN");
    EXPECT_EQ(DetailOf(choice.status())->field, "execution.kernels[aggregate]");
    EXPECT_THAT(std::string(choice.status().message()), HasSubstr("there are: picky, modest")) << "on this device";
  }
  EXPECT_THAT(std::string(kernels_.Find(DeviceKind::kCpu, "fast\n\x1b[2J").status().message()),
              HasSubstr("'fast??[2J'"));
}

TEST_F(RegistryTest, LaunchesAreCounted) {
  auto device = MakeCpuDevice(1);
  auto context = device->CreateContext();
  const auto& entry = *kernels_.kernels()[1];
  EXPECT_EQ(entry.launches(), 0);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(entry.Launch(*context, {}, nullptr).ok());
  EXPECT_EQ(entry.launches(), 3);
  EXPECT_EQ(kernels_.kernels()[2]->launches(), 0);
}

TEST(CpuKernels, EveryOperationHasAFastKernelFirstAndTheReferenceLast) {
  KernelRegistry registry;
  RegisterCpuKernels(registry);
  int operations = 0;
  registry.ForEachOperation([&](const auto& operation) {
    ++operations;
    ASSERT_GE(operation.kernels().size(), 2u) << operation.operation();
    EXPECT_NE(operation.kernels().front()->kernel().name(), "reference") << operation.operation();
    EXPECT_EQ(operation.kernels().back()->kernel().name(), "reference") << operation.operation();
    for (const auto& entry : operation.kernels()) EXPECT_EQ(entry->kernel().device(), DeviceKind::kCpu);
  });
  EXPECT_EQ(operations, 9);
  EXPECT_FALSE(CpuInstructionSet().empty());
}

}  // namespace
}  // namespace vicinal
