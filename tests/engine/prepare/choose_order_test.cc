// SPDX-License-Identifier: Apache-2.0
// The rule of `auto`, with times made up: keeps what is local, small or without gain, unmeasured, measures what
// promises a gain, takes what gains enough, and says why with the numbers.
#include "engine/prepare/choose_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/engine/graph/graph_testing.h"
#include "tests/support/generators.h"

namespace vicinal {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Counts calls, and answers with the times given: seconds per edge, as sent first.
class FakeMeasure {
 public:
  explicit FakeMeasure(std::vector<double> seconds) : seconds_(std::move(seconds)) {}

  MeasureOrders function() {
    return [this](const Csr& graph, std::span<const Permutation* const> orders) -> StatusOr<std::vector<OrderTime>> {
      ++calls;
      measured = orders.size();
      EXPECT_TRUE(orders[0]->is_identity());
      std::vector<OrderTime> times;
      for (size_t i = 0; i < orders.size(); ++i) {
        EXPECT_EQ(orders[i]->size(), graph.num_rows);
        times.push_back({seconds_[i], seconds_[i] / seconds_[0], 0.01, uncertainty});
      }
      return times;
    };
  }

  int calls = 0;
  size_t measured = 0;
  double uncertainty = 0.0;

 private:
  std::vector<double> seconds_;
};

// Caches so small that the graphs of these tests do not fit.
constexpr CacheSizes kCaches = {int64_t{1} << 16, int64_t{1} << 20};

StatusOr<ChosenOrder> Choose(const EdgeList& edges, FakeMeasure* measure, OrderKind requested = OrderKind::kAuto,
                             AutoOrders among = AutoOrders::kAll) {
  ChooseOptions options;
  options.auto_orders = among;
  options.caches = kCaches;
  if (measure != nullptr) options.measure = measure->function();
  return ChooseOrder(requested, BuildCsrByTarget(edges), options);
}

void ExpectKept(const ChosenOrder& order) {
  EXPECT_EQ(order.kind, OrderKind::kNone);
  EXPECT_TRUE(order.permutation.is_identity());
  EXPECT_THAT(order.reason, StartsWith("kept as sent, "));
}

TEST(ChooseOrder, DoesWhatIsAskedFor) {
  const EdgeList grid = ShuffleIds(GridGraph(20), 1);
  const Csr csr = BuildCsrByTarget(grid);
  FakeMeasure measure({1.0, 2.0, 2.0});
  for (const OrderKind kind : KnownOrders()) {
    if (kind == OrderKind::kAuto || !IsAvailable(kind)) continue;
    const ChosenOrder order = Choose(grid, &measure, kind).value();
    EXPECT_EQ(order.kind, kind);
    EXPECT_EQ(order.reason, "requested");
    EXPECT_EQ(order.permutation.new_of_old(), ComputeOrder(kind, csr)->new_of_old());
    EXPECT_EQ(order.communities.has_value(), kind == OrderKind::kCommunity);
  }
  EXPECT_EQ(measure.calls, 0);
}

TEST(ChooseOrder, TellsWhatWasAskedForAndCannotBe) {
  if (IsAvailable(OrderKind::kMetis)) GTEST_SKIP() << "this build has METIS";
  const Status refused = Choose(GridGraph(9), nullptr, OrderKind::kMetis).status();
  EXPECT_EQ(DetailOf(refused)->reason, "METIS_MISSING");
}

TEST(ChooseOrder, AutoTakesTheFastest) {
  const EdgeList grid = ShuffleIds(GridGraph(100), 1);
  const Csr csr = BuildCsrByTarget(grid);
  // The candidate of the best estimate comes first, whichever it is; the times decide.
  FakeMeasure second_wins({4e-9, 3e-9, 1e-9}), first_wins({4e-9, 1e-9, 3e-9});
  const ChosenOrder a = Choose(grid, &second_wins).value(), b = Choose(grid, &first_wins).value();
  EXPECT_EQ(second_wins.calls, 1);
  EXPECT_EQ(second_wins.measured, 3u);
  EXPECT_NE(a.kind, OrderKind::kNone);
  EXPECT_NE(b.kind, OrderKind::kNone);
  EXPECT_NE(a.kind, b.kind);
  for (const ChosenOrder* order : {&a, &b}) {
    EXPECT_EQ(order->permutation.new_of_old(), ComputeOrder(order->kind, csr)->new_of_old());
    EXPECT_THAT(order->reason,
                StartsWith(std::string(ToString(order->kind)) + " takes 75.0 % less time than the order"));
    EXPECT_THAT(order->reason, HasSubstr("a sum of width 64 takes as sent 0.16 ms (spread 1 %)"));
    EXPECT_THAT(order->reason, HasSubstr("estimated cost of a gather: as sent "));
    ASSERT_TRUE(order->communities.has_value());
    EXPECT_GT(order->communities->modularity, 0.8);
    EXPECT_EQ(order->before.inside_window_and_community,
              InsideWindowAndCommunity(csr, kLocalityWindow, order->communities->of_node));
  }
}

TEST(ChooseOrder, AutoTakesNoGainThatMayBeNone) {
  const EdgeList grid = ShuffleIds(GridGraph(100), 1);
  FakeMeasure measure({100e-9, 93e-9, 99e-9});
  measure.uncertainty = 0.06;
  EXPECT_NE(Choose(grid, &measure)->kind, OrderKind::kNone);
  measure.uncertainty = 0.1;
  const ChosenOrder kept = Choose(grid, &measure).value();
  ExpectKept(kept);
  EXPECT_THAT(kept.reason, HasSubstr("no order gains 10.0 %: a sum of width 64 takes as sent"));
}

// As on a GPU: all orders are measured, also those by which the caches gain nothing.
TEST(ChooseOrder, AutoMeasuresAllWhereEstimatesDoNotExclude) {
  const Csr csr = BuildCsrByTarget(RmatGraph(12, 30'000, 1));  // scattered degrees: three candidates
  FakeMeasure measure({4e-9, 4e-9, 4e-9, 1e-9});
  ChooseOptions options;
  options.caches = {int64_t{1} << 16, int64_t{1} << 40};
  options.measure = measure.function();
  options.estimates_exclude = false;
  EXPECT_NE(ChooseOrder(OrderKind::kAuto, csr, options)->kind, OrderKind::kNone);
  EXPECT_EQ(measure.measured, 4u);
  options.estimates_exclude = true;
  EXPECT_EQ(ChooseOrder(OrderKind::kAuto, csr, options)->kind, OrderKind::kNone);
  EXPECT_EQ(measure.calls, 1);
}

TEST(ChooseOrder, AutoLeavesOutWhatHasNoRoom) {
  const EdgeList grid = ShuffleIds(GridGraph(100), 1);
  FakeMeasure measure({4e-9, 1e-9, 1e-9});
  const ChosenOrder rcm = Choose(grid, &measure, OrderKind::kAuto, AutoOrders::kWithoutCommunities).value();
  EXPECT_EQ(rcm.kind, OrderKind::kRcm);
  EXPECT_EQ(measure.measured, 2u);
  EXPECT_FALSE(rcm.communities.has_value());
  EXPECT_THAT(rcm.reason, HasSubstr("community left out for want of memory"));
  const ChosenOrder as_sent = Choose(grid, &measure, OrderKind::kAuto, AutoOrders::kAsSent).value();
  ExpectKept(as_sent);
  EXPECT_THAT(as_sent.reason, HasSubstr("no room for computing an order"));
  EXPECT_EQ(measure.calls, 1);
  // What was asked for by name is not `auto`.
  EXPECT_EQ(Choose(grid, &measure, OrderKind::kRcm, AutoOrders::kAsSent)->kind, OrderKind::kRcm);
}

TEST(ChooseOrder, AutoKeepsWhatDoesNotGainEnough) {
  const EdgeList grid = ShuffleIds(GridGraph(100), 1);
  FakeMeasure little({4.0e-9, 3.85e-9, 3.9e-9}), enough({4.0e-9, 3.75e-9, 3.9e-9});
  const ChosenOrder kept = Choose(grid, &little).value();
  ExpectKept(kept);
  EXPECT_EQ(little.calls, 1);
  EXPECT_THAT(kept.reason, HasSubstr("no order gains 5.0 %: a sum of width 64 takes as sent"));
  EXPECT_TRUE(kept.communities.has_value());  // found on the way
  EXPECT_NE(Choose(grid, &enough)->kind, OrderKind::kNone);
}

TEST(ChooseOrder, AutoKeepsWhatIsLocalWithoutLooking) {
  FakeMeasure measure({1.0, 0.1, 0.1});
  const ChosenOrder order = Choose(GridGraph(100), &measure).value();
  ExpectKept(order);
  EXPECT_THAT(order.reason, HasSubstr("it is local enough: 100.0 % of the edges lie inside a window of 1024 ids"));
  EXPECT_EQ(order.before.inside_window, 1.0);
  EXPECT_FALSE(order.communities.has_value());
  EXPECT_EQ(measure.calls, 0);
}

TEST(ChooseOrder, AutoKeepsWhatFitsTheCacheWithoutLooking) {
  FakeMeasure measure({1.0, 0.1, 0.1});
  const ChosenOrder order = Choose(ShuffleIds(GridGraph(16), 1), &measure).value();  // 256 rows x 256 bytes
  ExpectKept(order);
  EXPECT_THAT(order.reason, HasSubstr("256 rows of 64 floats fit in the second-level cache in any order"));
  EXPECT_EQ(measure.calls, 0);
  EXPECT_THAT(Choose(testing::MakeEdges(5, {}), &measure)->reason, HasSubstr("there are no edges"));
}

TEST(ChooseOrder, AutoKeepsWhatNoOrderCanImproveWithoutLooking) {
  // Every source is gathered once: each order misses each row once.
  EdgeList once;
  once.num_nodes = 20000;
  for (NodeId v = 0; v < once.num_nodes; ++v) {
    once.source.push_back(v);
    once.target.push_back((v * 7919) % once.num_nodes);
  }
  FakeMeasure measure({1.0, 0.1, 0.1});
  const ChosenOrder order = Choose(once, &measure).value();
  ExpectKept(order);
  EXPECT_THAT(order.reason, HasSubstr("no order could gain more than 0.0 %"));
  EXPECT_EQ(measure.calls, 0);
}

TEST(ChooseOrder, AutoKeepsAnExpander) {
  // No order makes it local, and the estimate knows, so nothing is measured.
  FakeMeasure measure({1.0, 0.1, 0.1});
  const ChosenOrder order = Choose(UniformGraph(50000, 400000, 1), &measure).value();
  ExpectKept(order);
  EXPECT_THAT(order.reason, HasSubstr("no order promises a gain: estimated cost of a gather: as sent "));
  EXPECT_EQ(measure.calls, 0);
}

TEST(ChooseOrder, AutoDecidesByTheEstimateWhereItCannotMeasure) {
  const EdgeList grid = ShuffleIds(GridGraph(100), 1);
  const ChosenOrder alone = Choose(grid, nullptr).value();
  EXPECT_NE(alone.kind, OrderKind::kNone);
  EXPECT_THAT(alone.reason, HasSubstr("not measured; estimated cost of a gather"));

  ChooseOptions options;
  options.caches = kCaches;
  options.measure = [](const Csr&, std::span<const Permutation* const>) -> StatusOr<std::vector<OrderTime>> {
    return FailedPrecondition("NOT_MEASURED", "too large");
  };
  const ChosenOrder refused = ChooseOrder(OrderKind::kAuto, BuildCsrByTarget(grid), options).value();
  EXPECT_EQ(refused.kind, alone.kind);
  EXPECT_THAT(refused.reason, HasSubstr("not measured (too large); "));
}

TEST(ChooseOrder, AutoTriesDegreeWhereDegreesScatter) {
  // 3,000 hubs, spread over the ids, carry all edges, drawn among each other.
  EdgeList hubs = UniformGraph(3000, 60000, 2);
  hubs.num_nodes = 100000;
  const EdgeList edges = ShuffleIds(hubs, 3);
  EXPECT_THAT(Choose(edges, nullptr)->reason, HasSubstr(", degree "));
  EXPECT_THAT(Choose(ShuffleIds(GridGraph(100), 1), nullptr)->reason, ::testing::Not(HasSubstr(", degree ")));
}

TEST(ChooseOrder, IsTheSameForAnyNumberOfThreads) {
  const Csr csr = BuildCsrByTarget(ShuffleIds(GridGraph(100), 1));
  ThreadPool pool(3);
  FakeMeasure measure({4e-9, 1e-9, 3e-9});
  ChooseOptions alone = {kCaches, nullptr, measure.function()}, together = {kCaches, &pool, measure.function()};
  const ChosenOrder a = ChooseOrder(OrderKind::kAuto, csr, alone).value();
  const ChosenOrder b = ChooseOrder(OrderKind::kAuto, csr, together).value();
  EXPECT_EQ(a.reason, b.reason);
  EXPECT_EQ(a.permutation.new_of_old(), b.permutation.new_of_old());
}

TEST(RelativeGatherCost, RisesWithEveryLevel) {
  EXPECT_EQ(RelativeGatherCost({1.0, 1.0}), 1.0);
  EXPECT_EQ(RelativeGatherCost({0.0, 1.0}), 2.0);
  EXPECT_EQ(RelativeGatherCost({0.0, 0.0}), 4.0);
  EXPECT_DOUBLE_EQ(RelativeGatherCost({0.5, 0.75}), 0.5 + 0.5 + 1.0);
}

}  // namespace
}  // namespace vicinal
