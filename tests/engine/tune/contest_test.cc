// SPDX-License-Identifier: Apache-2.0
// The estimator against noise whose truth is known.
#include "engine/tune/contest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "tests/engine/tune/simulated_noise.h"

namespace vicinal {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

struct Outcome {
  Contest::Verdict verdict;
  int rounds = 0;
  int runs = 0;
};

Outcome Play(const std::vector<double>& truth, const testing::Noise& noise, uint64_t seed,
             ContestOptions options = {}) {
  testing::Random random(seed);
  Contest contest(static_cast<int>(truth.size()), options);
  Outcome outcome;
  while (true) {
    const std::vector<int> order = contest.NextRound();
    if (order.empty()) break;
    std::vector<std::optional<double>> seconds;
    for (const int candidate : order) {
      const double time = noise.Time(truth[candidate], outcome.runs++, random);
      seconds.push_back(random.Uniform() < noise.drop_chance ? std::nullopt : std::optional<double>(time));
    }
    contest.AddRound(seconds);
  }
  outcome.verdict = contest.Judge();
  outcome.rounds = contest.rounds();
  return outcome;
}

// A round in which candidate c takes times[c], whatever order they run in.
void AddTimes(Contest* contest, const std::vector<std::optional<double>>& times) {
  std::vector<std::optional<double>> seconds;
  for (const int candidate : contest->NextRound()) seconds.push_back(times[candidate]);
  contest->AddRound(seconds);
}

TEST(IntervalOfMedianTest, FewSamplesSayNothing) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const size_t n : {0, 1, 4}) {
    const MedianInterval interval = IntervalOfMedian(std::vector<double>(n, 3.0), 0.05);
    EXPECT_EQ(interval.low, -infinity) << n;
    EXPECT_EQ(interval.high, infinity) << n;
  }
  // 5 coins fall alike on a given side once in 32 times.
  const MedianInterval five = IntervalOfMedian({5, 1, 4, 2, 3}, 0.05);
  EXPECT_EQ(five.low, 1);
  EXPECT_EQ(five.median, 3);
  EXPECT_EQ(five.high, 5);
}

// Ranks from tables of the sign test (one-sided 0.05): n = 8 -> 2, 11 -> 3, 20 -> 6, 25 -> 8.
TEST(IntervalOfMedianTest, RanksAreThoseOfTheSignTest) {
  const std::pair<int, int> table[] = {{5, 1}, {7, 1}, {8, 2}, {11, 3}, {20, 6}, {25, 8}};
  for (const auto& [n, rank] : table) {
    std::vector<double> samples;
    for (int i = 1; i <= n; ++i) samples.push_back(i);
    const MedianInterval interval = IntervalOfMedian(samples, 0.05);
    EXPECT_EQ(interval.low, rank) << n;
    EXPECT_EQ(interval.high, n + 1 - rank) << n;
  }
}

TEST(ContestTest, AloneThereIsNothingToMeasure) {
  const Contest contest(1);
  EXPECT_THAT(contest.NextRound(), IsEmpty());
  EXPECT_EQ(contest.Judge().winner, 0);
  EXPECT_TRUE(contest.Judge().decided);
}

TEST(ContestTest, EveryoneRunsAndComesAfterEveryOther) {
  constexpr int kCount = 4;
  ContestOptions patient;
  patient.min_rounds = 100;
  Contest contest(kCount, patient);
  std::map<std::pair<int, int>, int> after;
  while (contest.rounds() < 100) {
    const std::vector<int> order = contest.NextRound();
    EXPECT_THAT(order, UnorderedElementsAre(0, 1, 2, 3));
    for (int i = 0; i + 1 < kCount; ++i) ++after[{order[i], order[i + 1]}];
    contest.AddRound(std::vector<std::optional<double>>(kCount, 1.0));
  }
  // 300 times somebody came after another, so each of the 12 pairs 25 times on average.
  EXPECT_EQ(after.size(), 12);
  for (const auto& [pair, count] : after) EXPECT_NEAR(count, 25, 15) << pair.first << " before " << pair.second;
}

TEST(ContestTest, EarlyStopDropsTheFarSlowerAfterThreeRounds) {
  Contest contest(3);
  AddTimes(&contest, {1.0, 1.1, 5.0});
  AddTimes(&contest, {1.0, 1.1, 5.0});
  EXPECT_TRUE(contest.in_play(2)) << "two samples may be spikes";
  AddTimes(&contest, {1.0, 1.1, 5.0});
  EXPECT_FALSE(contest.in_play(2));
  EXPECT_THAT(contest.NextRound(), UnorderedElementsAre(0, 1));
}

TEST(ContestTest, WhatTakesManyTimesAsLongGoesSooner) {
  Contest contest(4);
  AddTimes(&contest, {1.0, 1.1, 9.0, 13.0});
  EXPECT_TRUE(contest.in_play(2)) << "a spike may be so high";
  EXPECT_FALSE(contest.in_play(3));
  AddTimes(&contest, {1.0, 1.1, 9.0, 13.0});
  EXPECT_FALSE(contest.in_play(2));
}

// The close ones are looked at for as long as was asked, those far behind only until it is beyond doubt.
TEST(ContestTest, WhatIsFarBehindDoesNotStayForTheLongLook) {
  ContestOptions patient;
  patient.min_rounds = 40;
  Contest contest(3, patient);
  while (contest.rounds() < 20) {
    AddTimes(&contest, {1.0, 1.1, 1.5});
  }
  EXPECT_TRUE(contest.in_play(1));
  EXPECT_FALSE(contest.in_play(2));
}

TEST(ContestTest, OneSpikeDropsNobody) {
  Contest contest(2);
  AddTimes(&contest, {1.0, 20.0});
  AddTimes(&contest, {1.0, 1.0});
  AddTimes(&contest, {1.0, 20.0});
  EXPECT_TRUE(contest.in_play(1));
}

TEST(ContestTest, DroppedSamplesLeaveTheRestOfTheRoundStanding) {
  Contest contest(2);
  for (int round = 0; round < 6; ++round) {
    AddTimes(&contest, {2.0, round == 2 ? std::nullopt : std::optional<double>(1.5)});
  }
  EXPECT_EQ(contest.StandingOf(0).samples, 6);
  EXPECT_EQ(contest.StandingOf(1).samples, 5);
  EXPECT_DOUBLE_EQ(contest.StandingOf(1).ratio, 0.75);
  EXPECT_TRUE(contest.in_play(0)) << "five rounds that agree are not enough";
  EXPECT_TRUE(contest.Judge().kept);
}

TEST(ContestTest, AGainWithinTheNoiseKeepsTheDefault) {
  Contest contest(2);
  const double other[] = {0.97, 0.99, 1.03, 0.98, 1.02, 0.97};
  for (const double time : other) {
    AddTimes(&contest, {1.0, time});
  }
  const Contest::Verdict verdict = contest.Judge();
  EXPECT_EQ(verdict.winner, 0);
  EXPECT_TRUE(verdict.kept);
  EXPECT_EQ(verdict.gain, 1.0);
}

// Candidate 1 takes `time` where the default takes 1, and has a handicap of 1.25.
Contest::Verdict VerdictOnHandicapped(double time, double* ratio) {
  ContestOptions options;
  options.handicaps = {1.0, 1.25};
  Contest contest(2, options);
  while (!contest.NextRound().empty()) {
    AddTimes(&contest, {1.0, time});
    if (contest.NextRound().size() == 1) break;
  }
  *ratio = contest.StandingOf(1).ratio;
  return contest.Judge();
}

TEST(ContestTest, AHandicapIsToBeMadeUpFor) {
  double ratio = 0.0;
  const Contest::Verdict slower = VerdictOnHandicapped(0.9, &ratio);
  EXPECT_EQ(slower.winner, 0);
  EXPECT_EQ(slower.gain, 1.0);
  EXPECT_DOUBLE_EQ(ratio, 0.9) << "times are told as they were";
  const Contest::Verdict faster = VerdictOnHandicapped(0.5, &ratio);
  EXPECT_EQ(faster.winner, 1);
  EXPECT_DOUBLE_EQ(faster.gain, 2.0);
  EXPECT_DOUBLE_EQ(ratio, 0.5);
}

TEST(ContestTest, NothingMeasuredKeepsTheDefault) {
  EXPECT_EQ(Contest(4).Judge().winner, 0);
  EXPECT_FALSE(Contest(4).Judge().decided);
}

TEST(ContestTest, QuietMachinesDecideSoon) {
  testing::Noise quiet;
  quiet.jitter = 0.005;
  const Outcome outcome = Play({1.0, 0.8, 1.3, 0.9, 4.0}, quiet, 1);
  EXPECT_EQ(outcome.verdict.winner, 1);
  EXPECT_TRUE(outcome.verdict.decided);
  EXPECT_NEAR(outcome.verdict.gain, 1.25, 0.02);
  EXPECT_LE(outcome.rounds, 7);
}

TEST(ContestTest, EqualCandidatesEndInTheDefaultOrOneAsGood) {
  testing::Noise quiet;
  quiet.jitter = 0.004;
  const Outcome outcome = Play({1.0, 1.0, 1.0, 1.0}, quiet, 2);
  EXPECT_TRUE(outcome.verdict.decided);
  EXPECT_LE(outcome.rounds, 20);
}

// What issue 3 asks of the tuner, where the truth is known: within 5 % of the best in 95 % of the cells, never worse
// than 10 %.
class SimulatedNoiseTest : public ::testing::TestWithParam<std::pair<const char*, testing::Noise>> {};

TEST_P(SimulatedNoiseTest, PicksWithinFivePercentAndNeverWorseThanTen) {
  constexpr int kCells = 600;
  int within_five = 0, worse_than_ten = 0, runs = 0;
  for (int cell = 0; cell < kCells; ++cell) {
    testing::Random random(1000 + cell);
    std::vector<double> truth(2 + random.Bits() % 7);
    for (double& seconds : truth) seconds = 1e-3 * std::exp(0.2 * random.Normal());
    testing::Noise noise = GetParam().second;
    if (noise.disturbed_end > 0) noise.disturbed_begin = static_cast<int>(random.Uniform() * noise.disturbed_end);
    const Outcome outcome = Play(truth, noise, 77 + cell);
    const double loss = truth[outcome.verdict.winner] / *std::min_element(truth.begin(), truth.end());
    within_five += loss <= 1.05;
    worse_than_ten += loss > 1.10;
    runs += outcome.runs;
  }
  RecordProperty("within_five_percent", within_five);
  RecordProperty("runs_per_cell", runs / kCells);
  EXPECT_GE(within_five, kCells * 95 / 100);
  EXPECT_EQ(worse_than_ten, 0);
}

testing::Noise Make(double jitter, double spikes, double drift, int disturbed_runs, double dropped) {
  testing::Noise noise;
  noise.jitter = jitter;
  noise.spike_chance = spikes;
  noise.drift = drift;
  noise.disturbed_end = disturbed_runs;
  noise.drop_chance = dropped;
  return noise;
}

INSTANTIATE_TEST_SUITE_P(
    All, SimulatedNoiseTest,
    ::testing::Values(std::pair{"quiet", Make(0.005, 0, 0, 0, 0)}, std::pair{"jitter2", Make(0.02, 0, 0, 0, 0)},
                      std::pair{"jitter5", Make(0.05, 0, 0, 0, 0)}, std::pair{"jitter8", Make(0.08, 0, 0, 0, 0)},
                      std::pair{"spikes", Make(0.02, 0.1, 0, 0, 0)}, std::pair{"drift", Make(0.02, 0, 0.4, 0, 0)},
                      std::pair{"disturbed", Make(0.02, 0, 0, 80, 0)}, std::pair{"dropped", Make(0.02, 0, 0, 0, 0.2)},
                      std::pair{"everything", Make(0.05, 0.05, 0.3, 60, 0.1)}),
    [](const auto& info) { return info.param.first; });

// Runs that are long for the budget: three rounds, and a candidate that took half the time in each.
TEST(Contest, AFewRoundsAreEnoughForAPlainWinnerOnly) {
  Contest plain(2);
  Contest close(2);
  for (int round = 0; round < 3; ++round) {
    AddTimes(&plain, {1.0, 0.5});
    AddTimes(&close, {1.0, 0.9});
  }
  EXPECT_EQ(plain.Judge().winner, 1);
  EXPECT_DOUBLE_EQ(plain.Judge().gain, 2.0);
  EXPECT_EQ(close.Judge().winner, 0);
  EXPECT_TRUE(close.Judge().kept);
}

}  // namespace
}  // namespace vicinal
