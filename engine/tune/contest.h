// SPDX-License-Identifier: Apache-2.0
// Finds the fastest of several candidates from noisy times: the statistics of tuning, without clocks or kernels.
//
// Candidates run in rounds, each once per round, so that disturbances that last longer than a run (drift, a busy phase)
// slow all runs of a round alike. Candidates are compared by the ratios of their times within rounds. Spikes distort a
// mean, and a minimum rewards luck. Therefore ratios are judged by their median and by the median's confidence interval
// from order statistics (the sign test), which assumes nothing about the shape of the noise.
//
// Rounds continue until one candidate is left, all remaining ones are equally good, or the rounds or the budget end.
// The default is kept unless the winner is significantly faster, or was faster in the median of many rounds. A
// candidate with other drawbacks can get a handicap: comparisons include it, reported times do not.
#ifndef VICINAL_ENGINE_TUNE_CONTEST_H_
#define VICINAL_ENGINE_TUNE_CONTEST_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace vicinal {

struct ContestOptions {
  int max_rounds = 400;
  // Before this many rounds a candidate is eliminated only by `early_stop`, or if it is significantly slower by the
  // factor `far`.
  int min_rounds = 6;
  double far = 1.25;
  // Candidates whose times differ by less than this factor are equally good.
  double same = 1.02;
  // Early stop: a candidate is eliminated after one, two or three rounds if it took more than this many times the
  // leader's time in each of them. Spikes are rarely that high and hardly hit three runs. If runs are long, this saves
  // the budget for candidates that may win; at least two stay.
  std::array<double, 3> early_stop = {12.0, 8.0, 2.0};
  // Probability of error on each side of an interval. 0.02 needs 6 rounds that agree.
  double error = 0.02;
  // The same for eliminations if the ratios scatter by more than `noisy` (interquartile range / median): in a disturbed
  // phase a fast candidate loses six rounds in a row more often than in quiet times. 0.004 needs 8.
  double noisy_error = 0.004;
  double noisy = 0.1;
  // [candidates] factor by which a candidate must be faster than one with factor 1 to be as good; empty: 1 for all.
  std::vector<double> handicaps;
};

// Confidence interval of the median of the distribution of `samples`, with probability `error` on each side. Unbounded
// if there are too few samples.
struct MedianInterval {
  double median = 0.0;
  double low = 0.0;
  double high = 0.0;
};
MedianInterval IntervalOfMedian(std::vector<double> samples, double error);

// Not thread-safe.
class Contest {
 public:
  // Candidate 0 is the default. REQUIRES: count >= 1.
  explicit Contest(int count, ContestOptions options = {});

  // The candidates of the next round, in the order of their runs. The order changes from round to round, so that no
  // candidate always follows the same one. Empty: the contest is over.
  std::vector<int> NextRound() const;
  // Times of a round, one per candidate of NextRound(), in its order; empty for a sample that was dropped.
  void AddRound(const std::vector<std::optional<double>>& seconds);

  int rounds() const { return static_cast<int>(rounds_.size()); }
  bool in_play(int candidate) const { return in_play_[candidate]; }

  struct Standing {
    int64_t samples = 0;
    double median_seconds = 0.0;
    double spread = 0.0;  // (third quartile - first quartile) / median
    double ratio = 0.0;   // median over rounds of its time / the default's; 0: no common round
  };
  Standing StandingOf(int candidate) const;

  struct Verdict {
    int winner = 0;
    double gain = 1.0;     // time of the default / time of the winner
    bool decided = false;  // by the samples; false: the budget ended first
    bool kept = false;     // another candidate led, but not significantly, so the default stays
  };
  Verdict Judge() const;

 private:
  using Round = std::vector<double>;  // by candidate; 0: no sample

  double HandicapOf(int candidate) const;
  // Sorted ratios of a's time to b's, with their handicaps, in the rounds in which both have a time.
  std::vector<double> Ratios(int a, int b) const;
  // The median of these ratios without handicaps.
  double PlainRatio(int a, int b) const;
  bool ClearlySlower(int candidate, int leader, double by) const;
  bool FarSlower(int candidate, int leader) const;
  int Leader() const;
  void Eliminate();
  bool Settled(int leader) const;

  const int count_;
  const ContestOptions options_;
  std::vector<int> order_;  // of the current round
  std::vector<bool> in_play_;
  std::vector<Round> rounds_;
  bool settled_ = false;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNE_CONTEST_H_
