// SPDX-License-Identifier: Apache-2.0
// What the GPU benchmark makes of its figures, on cells made by hand: no GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "bench/cuda/listed_peers.h"
#include "bench/cuda/report.h"

namespace vicinal::bench {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::Not;

Json Kernel(const std::string& name, double us, bool first, bool right = true) {
  return {{"kernel", name},  {"parameters", ""}, {"first_choice", first}, {"relative_error", 1e-7}, {"right", right},
          {"median_us", us}, {"p10_us", us - 1}, {"p90_us", us + 1},      {"samples", 30}};
}

Json Cell(const std::string& graph, double cusparse_us, std::vector<Json> kernels) {
  Json cell = {{"graph", graph},         {"order", "none"},
               {"operation", "sum"},     {"width", 64},
               {"dram_floor_us", 5.0},   {"gather_floor_us", 8.0},
               {"gather_bytes", 80e3},   {"cusparse_sum_us", 40.0},
               {"cusparse", "csr_alg2"}, {"cusparse_us", cusparse_us},
               {"listed_us", 12.0},      {"kernels", kernels}};
  Complete(&cell);
  return cell;
}

TEST(CudaReportTest, RatiosAreThePeersTimeByOurs) {
  const Json cell = Cell("g", 20.0, {Kernel("slow", 40.0, true), Kernel("fast", 10.0, false)});
  EXPECT_EQ(cell.at("first"), 0);
  EXPECT_EQ(cell.at("best"), 1);
  const Json& fast = cell.at("kernels").at(1);
  EXPECT_DOUBLE_EQ(fast.at("times_cusparse").get<double>(), 2.0);
  EXPECT_DOUBLE_EQ(fast.at("times_sum").get<double>(), 4.0);
  EXPECT_DOUBLE_EQ(fast.at("times_listed").get<double>(), 1.2);
  EXPECT_DOUBLE_EQ(fast.at("over_dram_floor").get<double>(), 2.0);
  EXPECT_DOUBLE_EQ(fast.at("over_gather_floor").get<double>(), 1.25);
  EXPECT_DOUBLE_EQ(fast.at("gather_gbps").get<double>(), 8.0);
}

TEST(CudaReportTest, WrongResultsWinNothingAndAreNamed) {
  const Json cell = Cell("g", 20.0, {Kernel("wrong", 1.0, false, false), Kernel("right", 10.0, true)});
  EXPECT_EQ(cell.at("best"), 1);
  EXPECT_THAT(Summary({cell}), HasSubstr("g sum 64: wrong is wrong"));
  EXPECT_THAT(Summary({Cell("g", 20.0, {Kernel("wrong", 1.0, true, false)})}),
              HasSubstr("no kernel has a right result"));
}

TEST(CudaReportTest, RefusalsAndFailuresAreTold) {
  Json failed = {{"kernel", "k"}, {"parameters", "tile=32"}, {"first_choice", true}, {"failed", "no memory"}};
  const Json refused = {{"kernel", "other"}, {"refused", "only sums"}};
  EXPECT_THAT(Summary({Cell("g", 20.0, {failed, refused, Kernel("right", 10.0, false)})}),
              HasSubstr("g sum 64: k tile=32 failed: no memory"));
  const Json nobody = Cell("g", 20.0, {refused});
  EXPECT_THAT(Lines(nobody), HasSubstr("other refuses: only sums"));
  EXPECT_THAT(Summary({nobody}), HasSubstr("No kernel takes sum: 1 cells left out."));
}

TEST(CudaReportTest, MeansAreGeometricWithTheLowestCell) {
  const std::string text =
      Summary({Cell("a", 5.0, {Kernel("k", 10.0, true)}), Cell("b", 80.0, {Kernel("k", 10.0, true)})});
  EXPECT_THAT(text, HasSubstr("| sum | 2 | 2.00 (0.50) | 1 | 2.00 (0.50) | 4.00 | 1.20 (1.20) | 2.00 | 1.25 |"));
  EXPECT_THAT(text, Not(HasSubstr("FAULTS")));
}

TEST(CudaReportTest, TheBestOrderIsHeldAgainstPeersOnTheGraphAsSent) {
  Json renumbered = Cell("a", 8.0, {Kernel("k", 4.0, true)});
  renumbered["order"] = "community";
  const std::string text = Summary({Cell("a", 20.0, {Kernel("k", 10.0, true)}), renumbered,
                                    Cell("never renumbered", 1.0, {Kernel("k", 10.0, true)})});
  EXPECT_THAT(text, HasSubstr("| sum | 1 | 5.00 (5.00) | 10.00 (10.00) | 3.00 (3.00) |"));
  EXPECT_THAT(Summary({renumbered}), Not(HasSubstr("best order"))) << "nothing to hold it against";
}

TEST(ListedPeersTest, AreSharesOfCusparse) {
  EXPECT_NEAR(*ListedShareOfCusparse("reddit", 128, Listed::kSum), 6341.0 / 7685.2, 1e-12);
  EXPECT_NEAR(*ListedShareOfCusparse("reddit", 128, Listed::kGatFourHeads), 24649.4 / 7685.2, 1e-12);
  EXPECT_NEAR(*ListedShareOfCusparse("cora", 64, Listed::kDot), 2.2 / 7.5, 1e-12);
  EXPECT_FALSE(ListedShareOfCusparse("cora", 16, Listed::kMax).has_value());
  EXPECT_FALSE(ListedShareOfCusparse("cora", 16, Listed::kNothing).has_value());
  EXPECT_FALSE(ListedShareOfCusparse("karate", 16, Listed::kSum).has_value());
}

}  // namespace
}  // namespace vicinal::bench
