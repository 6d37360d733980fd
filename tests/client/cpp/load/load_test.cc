// SPDX-License-Identifier: Apache-2.0
// Schedules against told times, histograms against sorted values, popularity against its formula, and the command over
// a real socket against a fake server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <sstream>
#include <vector>

#include "client/cpp/cli/load_report.h"
#include "client/cpp/formats/files.h"
#include "client/cpp/load/histogram.h"
#include "client/cpp/load/requests.h"
#include "client/cpp/load/run.h"
#include "client/cpp/load/schedule.h"
#include "client/cpp/load/zipf.h"
#include "tests/client/cpp/cli/run_testing.h"

namespace vicinal::client::load {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Schedule Make(std::vector<Ramp> steps, double warmup, double seconds, int64_t calls = 0) {
  return Schedule{std::move(steps), warmup, seconds, calls};
}

TEST(LoadHistogram, QuantilesAreThoseOfSortedValues) {
  std::mt19937_64 random(3);
  std::vector<int64_t> values;
  Histogram halves[2];
  for (int i = 0; i < 20'000; ++i) {
    values.push_back(static_cast<int64_t>(std::exp(std::uniform_real_distribution<>(0, 30)(random))));
    halves[i % 2].Record(values.back());
  }
  halves[0].Merge(halves[1]);
  std::sort(values.begin(), values.end());
  for (const double q : {0.0001, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto exact = static_cast<double>(values[static_cast<size_t>(std::ceil(q * 20'000)) - 1]);
    const auto told = static_cast<double>(halves[0].Quantile(q));
    EXPECT_GE(told, exact) << q;
    EXPECT_LE(told, exact * (1 + 1.0 / 128)) << q;
  }
  EXPECT_EQ(halves[0].count(), 20'000);
  EXPECT_EQ(halves[0].min(), values.front());
  EXPECT_EQ(halves[0].max(), values.back());
}

TEST(LoadHistogram, EmptyNegativeAndLargest) {
  Histogram histogram;
  EXPECT_EQ(histogram.Quantile(0.5), 0);
  histogram.Record(-5);
  EXPECT_EQ(histogram.max(), 0);
  histogram.Record(INT64_MAX);
  EXPECT_EQ(histogram.Quantile(1), INT64_MAX);
  EXPECT_EQ(histogram.CountUpTo(0), 1);
  EXPECT_EQ(histogram.CountUpTo(-1), 0);
}

TEST(LoadSchedule, RampsAreParsed) {
  const auto ramps = ParseRamps("64,1..32");
  ASSERT_TRUE(ramps.ok());
  ASSERT_EQ(ramps->size(), 2);
  EXPECT_EQ((*ramps)[0].to, 64);
  EXPECT_EQ((*ramps)[1].from, 1);
  EXPECT_EQ((*ramps)[1].to, 32);
  for (const char* bad : {"", "a", "0", "0..0", "1..", "-1", "nan", "1,,2", "1e9"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseRamps(bad).status())) << bad;
  }
}

TEST(LoadSchedule, UniformArrivalsFollowTheRate) {
  OpenLoop loop(Make({{10, 10}, {0, 20}}, 0, 1), /*poisson=*/false, 1);
  std::vector<double> first, second;
  while (const auto arrival = loop.Next()) (arrival->step == 0 ? first : second).push_back(arrival->seconds);
  ASSERT_EQ(first.size(), 9);  // at 0.1, ..., 0.9; 1.0 is the next step's
  EXPECT_NEAR(first[4], 0.5, 1e-12);
  // Growing from 0 to 20 in a second: 10 t^2 calls after t seconds.
  ASSERT_GE(second.size(), 9);
  for (size_t i = 0; i < 9; ++i) EXPECT_NEAR(second[i], 1 + std::sqrt((i + 1.0) / 10), 1e-9);
}

TEST(LoadSchedule, PoissonGapsHaveTheirMeanAndSpread) {
  OpenLoop loop(Make({{1000, 1000}}, 0, 100), /*poisson=*/true, 7);
  double last = 0, sum = 0, squares = 0;
  int count = 0;
  while (const auto arrival = loop.Next()) {
    const double gap = arrival->seconds - last;
    last = arrival->seconds;
    sum += gap, squares += gap * gap, ++count;
  }
  // Of an exponential distribution the standard deviation is the mean; 1 % is about three standard errors of either.
  const double mean = sum / count;
  EXPECT_NEAR(mean, 1e-3, 1e-5);
  EXPECT_NEAR(std::sqrt(squares / count - mean * mean), 1e-3, 2e-5);
}

TEST(LoadSchedule, StepsEndByCallsAndWarmupIsNotCounted) {
  OpenLoop loop(Make({{100, 100}, {100, 100}}, 0.1, 10, 5), /*poisson=*/false, 1);
  int by_step[3] = {};
  double last = 0;
  while (const auto arrival = loop.Next()) ++by_step[arrival->step + 1], last = arrival->seconds;
  EXPECT_GE(by_step[0], 9);
  EXPECT_EQ(by_step[1], 5);
  EXPECT_EQ(by_step[2], 5);
  EXPECT_NEAR(last, 0.2, 1e-9);
  EXPECT_NEAR(loop.steps().StartOf(1), 0.15, 1e-9);
  EXPECT_EQ(loop.steps().At(0.05), kWarmup);
  EXPECT_EQ(loop.steps().At(0.12), 0);
  EXPECT_EQ(loop.steps().At(0.17), 1);
  EXPECT_EQ(loop.steps().At(5), 1) << "calls that still run belong to the last step";
}

TEST(LoadSchedule, StepsThatEndByTimeHaveAnEnd) {
  OpenLoop loop(Make({{2, 2}, {4, 4}}, 1, 1), /*poisson=*/false, 1);
  EXPECT_EQ(loop.steps().At(2.5), 1) << "before any call";
  EXPECT_EQ(loop.steps().At(9), 2);
  while (loop.Next()) continue;
  EXPECT_EQ(loop.steps().At(0.5), kWarmup);
  EXPECT_EQ(loop.steps().At(1.5), 0);
  EXPECT_EQ(loop.steps().At(2.5), 1);
  EXPECT_EQ(loop.steps().At(3.5), 2);
  EXPECT_EQ(loop.steps().EndOf(1), 3);
}

TEST(LoadSchedule, UsersOfAClosedLoopJoinAndLeaveWithTheRamp) {
  ClosedLoop loop(Make({{1, 3}, {1, 1}}, 0, 10));
  EXPECT_EQ(loop.users(), 3);
  EXPECT_EQ(loop.Ask(0, 0).kind, ClosedLoop::Next::kStart);
  const auto parked = loop.Ask(2, 0);
  ASSERT_EQ(parked.kind, ClosedLoop::Next::kPark);
  EXPECT_NEAR(parked.until, 7.5, 1e-3);  // where 1 + 2 t/10 rounds to 3
  EXPECT_EQ(loop.Ask(2, parked.until).kind, ClosedLoop::Next::kStart);
  const auto later = loop.Ask(2, 12);
  ASSERT_EQ(later.kind, ClosedLoop::Next::kPark);
  EXPECT_EQ(later.until, 20);
  EXPECT_EQ(loop.Ask(0, 13).step, 1);
  EXPECT_EQ(loop.Ask(0, 20).kind, ClosedLoop::Next::kEnd);
}

TEST(LoadZipf, FrequenciesFollowTheFormula) {
  for (const double exponent : {0.0, 0.5, 1.0, 1.5}) {
    constexpr int kRanks = 20, kDraws = 200'000;
    const Zipf zipf(kRanks, exponent);
    std::mt19937_64 random(5);
    std::vector<int> counts(kRanks);
    for (int i = 0; i < kDraws; ++i) ++counts.at(static_cast<size_t>(zipf.Draw(random)));
    double norm = 0;
    for (int r = 1; r <= kRanks; ++r) norm += std::pow(r, -exponent);
    for (int r = 1; r <= kRanks; ++r) {
      const double expected = kDraws * std::pow(r, -exponent) / norm;
      EXPECT_NEAR(counts[static_cast<size_t>(r - 1)], expected, 5 * std::sqrt(expected)) << exponent << ' ' << r;
    }
  }
  std::mt19937_64 random(1);
  EXPECT_EQ(Zipf(1, 1.1).Draw(random), 0);
}

class LoadCommandTest : public cli::RunTest {
 protected:
  void Upload() {
    ASSERT_TRUE(WriteFile("e.txt", "0 1\n").ok());
    ASSERT_EQ(Vicinal("graph upload e.txt --name g --num_nodes 25"), cli::kExitOk) << err();
  }
};

TEST_F(LoadCommandTest, ClosedAndOpenLoopsCountTheirCallsOverASocket) {
  Upload();
  for (const char* loop : {"--concurrency 4", "--rate 5000"}) {
    ASSERT_EQ(Vicinal(std::string("load --mix health --warmup 0 --calls 50 --duration 60 --threads 2 --connections 2 "
                                  "--json ") +
                      loop),
              cli::kExitOk)
        << err();
    const auto json = Json();
    EXPECT_EQ(json["total"]["ok"], 50) << loop;
    EXPECT_EQ(json["total"]["failed"], 0) << loop;
    EXPECT_LE(json["total"]["latency"]["p50"], json["total"]["latency"]["max"]);
    EXPECT_EQ(json["steps"].size(), 1);
  }
}

TEST_F(LoadCommandTest, EveryCallOfAnOverloadIsCountedOnce) {
  // A million calls a second, one at a time, a millisecond each: most cannot be sent in time.
  const int code =
      Vicinal("load --mix health --warmup 0 --rate 1000000 --max_in_flight 1 --deadline 0.001 --calls 3000 --json");
  const auto json = Json();
  EXPECT_EQ(json["total"]["ok"].get<int>() + json["total"]["failed"].get<int>(), 3000);
  EXPECT_GT(json["total"]["failed"], 0);
  EXPECT_LE(json["total"]["latency"]["max"], 0.001) << "a late success is no success";
  int errors = 0;
  for (const auto& error : json["errors"]) errors += error["count"].get<int>();
  EXPECT_EQ(errors, json["total"]["failed"]);
  EXPECT_EQ(code, json["total"]["ok"] > 0 ? cli::kExitOk : cli::kExitUnavailable);
}

TEST_F(LoadCommandTest, ErrorsAreCountedByCodeAndFailTheRun) {
  EXPECT_NE(Vicinal("load --mix classify --graph missing --model m --calls 5"), cli::kExitOk);
  EXPECT_EQ(Vicinal("load --mix nothing"), cli::kExitUsage);
  EXPECT_THAT(err(), HasSubstr("methods are classify, embed"));
  EXPECT_EQ(Vicinal("load --concurrency 0 --mix health"), cli::kExitUsage);
  EXPECT_EQ(Vicinal("load --rate 1 --concurrency 1 --mix health"), cli::kExitUsage);
  EXPECT_THAT(err(), HasSubstr("exclude each other"));
  EXPECT_EQ(Vicinal("load --mix health --duration 0"), cli::kExitUsage);
  EXPECT_EQ(Vicinal("load --nodes 5..1 --mix health"), cli::kExitUsage);
  EXPECT_EQ(Vicinal("load --mix classify --model m"), cli::kExitUsage);
  EXPECT_THAT(err(), HasSubstr("--graph is missing"));
}

TEST_F(LoadCommandTest, HelpNamesEveryMethod) {
  ASSERT_EQ(Vicinal("load --help"), cli::kExitOk);
  for (const MethodTraits& traits : Methods()) EXPECT_THAT(out(), HasSubstr(traits.name));
  Upload();
  EXPECT_EQ(Vicinal("load --streams --mix health"), cli::kExitUsage);
  EXPECT_THAT(err(), HasSubstr("it carries classify, embed, predict_links, classify_features, classify_rows"));
}

TEST(LoadReport, MoreInFlightThanStreamsCarryIsHintedAt) {
  const auto report = [](double in_flight, int connections, int threads) {
    LoadOptions options;
    options.streams = true;
    options.connections = connections;
    options.threads = threads;
    options.schedule.steps = {{1, in_flight}};
    LoadResult result;
    result.step_seconds = {1.0};
    std::ostringstream out;
    cli::PrintLoad(options, result, out);
    return out.str();
  };
  EXPECT_THAT(report(129, 2, 1), HasSubstr("with 2 streams, 1 of 129 calls wait here"));
  EXPECT_THAT(report(129, 2, 2), HasSubstr("with 2 streams, 1 of 129 calls wait here"));
  EXPECT_THAT(report(128, 2, 2), Not(HasSubstr("hint")));
  EXPECT_THAT(report(384, 2, 3), Not(HasSubstr("hint")));
  EXPECT_THAT(report(385, 2, 3), HasSubstr("with 6 streams, 1 of 385 calls wait here"));
}

TEST_F(LoadCommandTest, MoreInFlightThanAConnectionCarriesIsHintedAt) {
  const std::string line = "load --mix health --warmup 0 --calls 1 --duration 60 ";
  ASSERT_EQ(Vicinal(line + "--concurrency 257"), cli::kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("hint: a connection carries 256 calls"));
  EXPECT_THAT(out(), HasSubstr("1 of 257 calls wait here"));
  EXPECT_THAT(out(), HasSubstr("--connections 2 or more"));
  ASSERT_EQ(Vicinal(line + "--concurrency 1,600 --connections 2"), cli::kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("--connections 3 or more"));
  for (const char* enough : {"--concurrency 256", "--concurrency 512 --connections 2", "--rate 1000"}) {
    ASSERT_EQ(Vicinal(line + enough), cli::kExitOk) << err();
    EXPECT_THAT(out(), Not(HasSubstr("hint"))) << enough;
  }
}

}  // namespace
}  // namespace vicinal::client::load
