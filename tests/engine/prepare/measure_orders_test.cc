// SPDX-License-Identifier: Apache-2.0
// The measurer: what it runs and how often, on a clock of our own; and that it says no where the rows are too many. How
// fast anything is, no test asks.
#include "engine/prepare/measure_orders.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/prepare/measure_tuned_orders.h"
#include "engine/prepare/order_sample.h"
#include "tests/engine/tune/remembered_runs.h"
#include "tests/support/generators.h"

namespace vicinal {
namespace {

// Moves on by a millisecond whenever it is looked at.
class TickingClock final : public Clock {
 public:
  MonotonicTime Now() const override { return MonotonicTime(std::chrono::milliseconds(++calls_)); }
  WallTime WallNow() const override { return {}; }

 private:
  mutable int64_t calls_ = 0;
};

class MeasureOrdersTest : public ::testing::Test {
 protected:
  MeasureOrdersTest() { RegisterCpuKernels(registry_); }

  int64_t Launches() const {
    int64_t launches = 0;
    for (const auto& kernel : registry_.aggregate.kernels()) launches += kernel->launches();
    return launches;
  }

  KernelRegistry registry_;
  std::unique_ptr<Device> device_ = MakeCpuDevice(2);
  std::unique_ptr<DeviceContext> context_ = device_->CreateContext();
};

TEST_F(MeasureOrdersTest, RunsEachOrderAlike) {
  const TickingClock clock;
  const MeasureOrders measure = MakeOrderMeasurer(registry_, *context_, clock);
  const Csr csr = BuildCsrByTarget(RmatGraph(10, 8000, 1));
  const Permutation as_sent = Permutation::Identity(csr.num_rows);
  const Permutation community = ComputeOrder(OrderKind::kCommunity, csr).value();
  const Permutation* orders[] = {&as_sent, &community};
  const auto times = measure(csr, orders);
  ASSERT_TRUE(times.ok()) << times.status();
  ASSERT_EQ(times->size(), 2u);
  for (const OrderTime& time : *times) {
    // One tick a run, whole graphs of 8,000 edges: all the same.
    EXPECT_NEAR(time.seconds_per_edge, 1e-3 / 8000, 1e-12);
    EXPECT_NEAR(time.relative, 1.0, 1e-9);
    EXPECT_NEAR(time.spread, 0.0, 1e-9);
  }
  // As many rounds as there may be, and one that does not count.
  EXPECT_EQ(Launches(), 2 * (kMaxRounds + 1));
  EXPECT_EQ(device_->allocated_bytes(), 0);
}

TEST_F(MeasureOrdersTest, SamplesLargeGraphsInBlocks) {
  const TickingClock clock;
  const Csr csr = BuildCsrByTarget(UniformGraph(5000, 2 * kMeasuredEdges, 1));
  const Permutation as_sent = Permutation::Identity(csr.num_rows);
  const Permutation* orders[] = {&as_sent};
  const auto times = MakeOrderMeasurer(registry_, *context_, clock)(csr, orders);
  ASSERT_TRUE(times.ok()) << times.status();
  // A tick by the edges that were taken: half of them, but for the rows at the blocks' ends.
  EXPECT_NEAR(1e-3 / times->front().seconds_per_edge, kMeasuredEdges, 0.01 * kMeasuredEdges);
  EXPECT_EQ(times->front().relative, 1.0);
}

// The time of an order is its fastest candidate's, and the first run of each does not count.
TEST_F(MeasureOrdersTest, TunedTimesAreOfTheFastestCandidate) {
  const TickingClock clock;
  const MeasureOrders measure = MakeTunedOrderMeasurer(registry_, *context_, clock, nullptr);
  const Csr csr = BuildCsrByTarget(RmatGraph(10, 8000, 1));
  const Permutation as_sent = Permutation::Identity(csr.num_rows);
  const Permutation community = ComputeOrder(OrderKind::kCommunity, csr).value();
  const Permutation* orders[] = {&as_sent, &community};
  const auto times = measure(csr, orders);
  ASSERT_TRUE(times.ok()) << times.status();
  ASSERT_EQ(times->size(), 2u);
  for (const OrderTime& time : *times) {
    EXPECT_NEAR(time.seconds_per_edge, 1e-3 / 8000, 1e-12);
    EXPECT_NEAR(time.relative, 1.0, 1e-9);
  }
  EXPECT_EQ(Launches(), 0);  // as tuning, it counts no launches of requests
  EXPECT_EQ(device_->allocated_bytes(), 0);
}

TEST(OrderSample, HasTheRowsOfTheRenumberedGraph) {
  const Csr csr = BuildCsrByTarget(RmatGraph(10, 8000, 1));
  const Permutation order = ComputeOrder(OrderKind::kCommunity, csr).value();
  const Csr renumbered = RenumberCsr(csr, order.new_of_old());
  ThreadPool pool(2);
  for (ThreadPool* threads : {static_cast<ThreadPool*>(nullptr), &pool}) {
    const OrderSample all = SampleUnder(csr, order, 8000, threads);
    EXPECT_EQ(all.row_ptr, renumbered.row_ptr);
    EXPECT_EQ(all.col, renumbered.col);
    const OrderSample half = SampleUnder(csr, order, 4000, threads);
    EXPECT_EQ(half.row_ptr.back(), half.col.size());
    EXPECT_NEAR(half.row_ptr.back(), 4000, 8 * 300);  // but for the last rows of the blocks
    EXPECT_TRUE(std::equal(half.col.begin(), half.col.begin() + half.row_ptr[10], all.col.begin()));
  }
}

TEST_F(MeasureOrdersTest, TellsOfTheFirstRunAndHeedsQuarantine) {
  const Csr csr = BuildCsrByTarget(RmatGraph(6, 200, 1));
  const Permutation as_sent = Permutation::Identity(csr.num_rows);
  const Permutation* orders[] = {&as_sent};
  testing::RememberedRuns runs;
  const MeasureOrders measure = MakeOrderMeasurer(registry_, *context_, Clock::Real(), &runs);
  ASSERT_TRUE(measure(csr, orders).ok());
  const std::vector<std::string> begun = runs.TakeBegun();
  ASSERT_EQ(begun.size(), 1u) << "the first of many";
  EXPECT_TRUE(runs.HasEndedWell(begun[0]));
  runs.Quarantine(begun[0]);
  const int64_t launches = Launches();
  const auto refused = measure(csr, orders);
  EXPECT_EQ(DetailOf(refused.status())->reason, "KERNEL_QUARANTINED");
  EXPECT_EQ(Launches(), launches);
}

TEST_F(MeasureOrdersTest, TunedTimesTellOfFirstRunsAndHeedQuarantine) {
  const Csr csr = BuildCsrByTarget(RmatGraph(6, 200, 1));
  const Permutation as_sent = Permutation::Identity(csr.num_rows);
  const Permutation* orders[] = {&as_sent, &as_sent};
  testing::RememberedRuns runs;
  const MeasureOrders measure = MakeTunedOrderMeasurer(registry_, *context_, Clock::Real(), nullptr, &runs);
  ASSERT_TRUE(measure(csr, orders).ok());
  const std::vector<std::string> begun = runs.TakeBegun();
  ASSERT_GT(begun.size(), 1u);
  EXPECT_EQ(std::set<std::string>(begun.begin(), begun.end()).size(), begun.size()) << "each once";
  runs.Quarantine(begun.back());
  ASSERT_TRUE(measure(csr, orders).ok());
  for (const std::string& again : runs.TakeBegun()) EXPECT_NE(again, begun.back());
}

TEST_F(MeasureOrdersTest, SaysNoWhereRowsAreTooMany) {
  Csr csr;
  csr.num_rows = csr.num_cols = kMaxMeasuredBytes / (kMinMeasuredWidth * 4) + 1;
  EXPECT_EQ(MeasureBytesBound(csr.num_rows, 10), 0);
  const auto times = MakeOrderMeasurer(registry_, *context_, Clock::Real())(csr, {});
  EXPECT_EQ(DetailOf(times.status())->reason, "NOT_MEASURED");
  EXPECT_GT(MeasureBytesBound(csr.num_rows - 1, 10), kMaxMeasuredBytes);
  EXPECT_GT(TunedMeasureBytesBound(csr.num_rows, 10), kMaxMeasuredBytes) << "a GPU has more memory";
  csr.num_rows = csr.num_cols = kMaxTunedMeasuredBytes / (kMinMeasuredWidth * 4) + 1;
  EXPECT_EQ(TunedMeasureBytesBound(csr.num_rows, 10), 0);
  const auto tuned = MakeTunedOrderMeasurer(registry_, *context_, Clock::Real(), nullptr)(csr, {});
  EXPECT_EQ(DetailOf(tuned.status())->reason, "NOT_MEASURED");
}

}  // namespace
}  // namespace vicinal
