// SPDX-License-Identifier: Apache-2.0
// What kernels declare of themselves: reduction orders with stable ids, and former names.
#include "tests/engine/kernels/kernel_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

namespace vicinal {
namespace {

constexpr int64_t kLowest = int64_t{1} << 52, kBeyond = int64_t{1} << 53;

// A change here breaks numerics revisions that clients and stored answers keep: raise a version instead, and add a
// line.
TEST(ReductionOrderTest, IdsOfCpuKernelsAreStable) {
  KernelRegistry registry;
  RegisterCpuKernels(registry);
  EXPECT_THAT(
      testing::DeclaredOrders(registry, DeviceKind::kCpu),
      ::testing::IsSupersetOf(
          {"aggregate double_precision 1 own 5458875593665275", "aggregate even_odd_blocks 1 standard 8525697703225534",
           "attention double_precision 1 own 6774663654024667", "attention online_softmax 2 standard 8163248917709956",
           "dense_update double_precision 1 own 5023594039423104", "dense_update panels 1 standard 8286962763210884",
           "edge_scores dot_lanes 1 standard 6128606102604427", "edge_scores double_precision 1 own 7809348576131495",
           "expression double_precision 1 own 8610294051866133",
           "expression expression_tiles 2 standard 8278804046008942",
           "message_reduce double_precision 1 own 7595233894678049",
           "message_reduce edge_blocks 1 standard 5807760454884160", "rowwise double_precision 1 own 6712271572070258",
           "rowwise row_lanes 1 standard 8335560953480910",
           "sparse_aggregate_update double_precision 1 own 8363344079666448",
           "sparse_aggregate_update gathered_rows 1 standard 7501518829141208",
           "sparse_update double_precision 1 own 5383086473972424",
           "sparse_update even_odd_blocks 1 standard 7475784502032321"}));
}

TEST(ReductionOrderTest, AnIdIsTheHashOfOperationNameVersionAndParameters) {
  const std::vector<int64_t> none, zeros = {0, 0}, one = {1}, shifted = {0, 1};
  std::set<int64_t> ids;
  for (const auto& [operation, name, version] : {std::tuple("a", "x", 1), {"b", "x", 1}, {"a", "y", 1}, {"a", "x", 2}})
    ids.insert(ReductionOrderId(operation, {name, version}));
  ids.insert(ReductionOrderId("a", {"x", 1}, one));
  ids.insert(ReductionOrderId("a", {"x", 1}, shifted));
  EXPECT_EQ(ids.size(), 6);
  for (const int64_t id : ids) {
    EXPECT_GE(id, kLowest);
    EXPECT_LT(id, kBeyond) << "JSON readers hold numbers as double";
  }
  EXPECT_EQ(ReductionOrderId("a", {"x", 1}, zeros), ReductionOrderId("a", {"x", 1}, none));
  EXPECT_EQ(ReductionOrderId("aggregate", {"equal_parts", 1}, one), 6133504241844151);
}

TEST(ReductionOrderTest, MixingTellsPlacesAndOrdersApart) {
  const int64_t a = ReductionOrderId("a", {"x", 1}), b = ReductionOrderId("a", {"y", 1});
  std::set<int64_t> mixed;
  for (const int64_t id : {a, b})
    for (const int64_t place : {0, 1}) mixed.insert(MixReductionOrders(0, place, id));
  mixed.insert(MixReductionOrders(MixReductionOrders(0, 0, a), 1, b));
  mixed.insert(MixReductionOrders(MixReductionOrders(0, 0, b), 1, a));
  EXPECT_EQ(mixed.size(), 6);
  for (const int64_t id : mixed) EXPECT_TRUE(id >= kLowest && id < kBeyond) << id;
  EXPECT_EQ(MixReductionOrders(101, 0, a), 7773513809145609);
}

class OrderedKernel final : public AggregateKernel {
 public:
  explicit OrderedKernel(DeclaredOrder order, bool fallback = false) : order_(order), fallback_(fallback) {}
  std::string_view name() const override { return "ordered"; }
  DeviceKind device() const override { return DeviceKind::kCpu; }
  DeclaredOrder declared_order() const override { return order_; }
  bool fallback_only() const override { return fallback_; }
  std::vector<int64_t> OrderParameters(const AggregateProblem&, const KernelConfig& config) const override {
    return {config.values[0]};
  }
  Refusal WhyUnsupported(const AggregateProblem&) const override { return {}; }
  Status Run(DeviceContext&, const AggregateArgs&, void*) const override { return OkStatus(); }

 private:
  const DeclaredOrder order_;
  const bool fallback_;
};

TEST(ReductionOrderTest, OnlyStandardOrdersWithoutParametersAreZero) {
  const KernelConfig plain, other = {{3}};
  const OrderedKernel standard({"x", 1, true}), own({"x", 1}), fallback({"y", 1}, true);
  EXPECT_EQ(standard.ReductionOrder({}, plain), 0);
  EXPECT_EQ(fallback.ReductionOrder({}, plain), 0);
  EXPECT_EQ(own.ReductionOrder({}, plain), ReductionOrderId("aggregate", {"x", 1}));
  EXPECT_EQ(standard.ReductionOrder({}, other), own.ReductionOrder({}, other));
  EXPECT_NE(own.ReductionOrder({}, other), own.ReductionOrder({}, plain));
}

TEST(ReductionOrderTest, ConflictsAreFound) {
  EXPECT_EQ(WhyOrdersConflict("a", {"x", 1}, {"x", 1}), "");
  EXPECT_EQ(WhyOrdersConflict("a", {"x", 1}, {"x", 2}), "");
  EXPECT_THAT(WhyOrdersConflict("a", {"x", 1, true}, {"x", 1}), ::testing::HasSubstr("both standard and not"));
}

TEST(ReductionOrderDeathTest, RegistrationRejectsConflicts) {
  const auto add = [](DeclaredOrder first, DeclaredOrder second) {
    OperationKernels<AggregateKernel> kernels("aggregate");
    kernels.Add(std::make_unique<OrderedKernel>(first));
    kernels.Add(std::make_unique<OrderedKernel>(second));
  };
  add({"x", 1, true}, {"y", 1});
  EXPECT_DEATH(add({"x", 1, true}, {"x", 1}), "declared both standard and not standard");
  EXPECT_DEATH(add({"x", 1, true}, {"y", 1, true}), "two standard reduction orders on one device");
}

TEST(KernelAliasTest, FormerNamesMeanTheirKernels) {
  EXPECT_EQ(CurrentKernelName("aggregate", "balanced_rows"), "binned_rows");
  EXPECT_EQ(CurrentKernelName("sparse_update", "balanced_rows"), "binned_rows");
  EXPECT_EQ(CurrentKernelName("aggregate", "abreast_rows"), "length_sorted_rows");
  EXPECT_EQ(CurrentKernelName("aggregate", "shared_panels"), "source_panels");
  EXPECT_EQ(CurrentKernelName("attention", "balanced_rows"), "balanced_rows") << "of another operation";
  EXPECT_EQ(CurrentKernelName("aggregate", "simd_rows"), "simd_rows");
  EXPECT_EQ(CurrentKernelName("aggregate", ""), "");
}

TEST(KernelAliasTest, NoAliasHidesAKernelOrLeadsToAnother) {
  KernelRegistry registry;
  RegisterCpuKernels(registry);
  for (const KernelAlias& alias : KernelAliases()) {
    EXPECT_EQ(CurrentKernelName(alias.operation, alias.current), alias.current) << alias.former;
    registry.ForEachOperation([&](const auto& operation) {
      if (operation.operation() != alias.operation) return;
      for (const auto& entry : operation.kernels()) EXPECT_NE(entry->kernel().name(), alias.former);
    });
  }
}

class NamedKernel final : public AggregateKernel {
 public:
  std::string_view name() const override { return "binned_rows"; }
  DeviceKind device() const override { return DeviceKind::kCpu; }
  DeclaredOrder declared_order() const override { return {"x", 1, true}; }
  Refusal WhyUnsupported(const AggregateProblem&) const override { return {}; }
  Status Run(DeviceContext&, const AggregateArgs&, void*) const override { return OkStatus(); }
};

TEST(KernelAliasTest, AForcedFormerNameIsServedByTheKernel) {
  OperationKernels<AggregateKernel> kernels("aggregate");
  kernels.Add(std::make_unique<NamedKernel>());
  const auto choice = kernels.Choose({}, DeviceKind::kCpu, "balanced_rows");
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->kernel->kernel().name(), "binned_rows");
}

// The table of docs/tuning.md is the table of the source.
TEST(KernelAliasTest, TheDocsListThem) {
  std::ifstream file(VICINAL_TUNING_DOC);
  std::vector<std::string> want, got;
  for (const KernelAlias& alias : KernelAliases()) {
    want.push_back(absl::StrCat("| `", std::string(alias.former), "` | `", std::string(alias.current), "` | `",
                                std::string(alias.operation), "` |"));
  }
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line == "| former name | kernel | operation |") inside = true;
    if (line.empty()) inside = false;
    if (inside && line.rfind("| `", 0) == 0) got.push_back(line);
  }
  EXPECT_EQ(got, want);
}

TEST(ParameterRangeTest, AllowsZeroAndWhatItDescribes) {
  const ParameterRange tile = ParameterRange::Between(4, 192);
  EXPECT_EQ(tile.Describe(), "0 or 4 to 192");
  for (const int32_t value : {0, 4, 192}) EXPECT_TRUE(tile.Allows(value)) << value;
  for (const int32_t value : {-1, 1, 3, 193}) EXPECT_FALSE(tile.Allows(value)) << value;
  const ParameterRange lanes = ParameterRange::OneOf({16, 64, 32});
  EXPECT_EQ(lanes.Describe(), "0, 16, 32 or 64");
  for (const int32_t value : {0, 32}) EXPECT_TRUE(lanes.Allows(value)) << value;
  for (const int32_t value : {-1, 17, 65}) EXPECT_FALSE(lanes.Allows(value)) << value;
  EXPECT_EQ(ParameterRange::OneOf({-1, 1}).Describe(), "-1, 0 or 1");
  EXPECT_EQ(ParameterRange::AtLeast(-1).Describe(), "-1 to 1048576");
  EXPECT_EQ(ParameterRange::AtLeast(0).Describe(), "0 to 1048576");
}

TEST(ParameterRangeTest, TuningOnCpusKeepsToTheRanges) {
  KernelRegistry registry;
  RegisterCpuKernels(registry);
  EXPECT_THAT(testing::ValuesOutOfRange(registry, DeviceKind::kCpu), ::testing::IsEmpty());
}

}  // namespace
}  // namespace vicinal
