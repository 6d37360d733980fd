// SPDX-License-Identifier: Apache-2.0
// Which of several candidates is fastest, from noisy times: the arithmetic of tuning, without clocks or kernels.
//
// Candidates are run in rounds, each once per round, so that whatever slows the machine for longer than a run (drift,
// a disturbed phase) slows all of a round alike; they are compared by the ratios of their times within rounds. A mean
// is carried off by spikes and a minimum rewards luck, so ratios are judged by their median and by a confidence
// interval of the median from order statistics (the sign test), which supposes nothing about the shape of the noise.
//
// Rounds go on until one candidate is left, or all that are left are as good as each other, or the rounds or the budget
// end. The default is kept unless the winner is faster beyond doubt, or was so in the median of many rounds. A
// candidate that has drawbacks besides its time may be given a handicap: times count with it, and are told without.
#ifndef VICINAL_ENGINE_TUNE_CONTEST_H_
#define VICINAL_ENGINE_TUNE_CONTEST_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace vicinal {

struct ContestOptions {
  int max_rounds = 400;
  // Before this many rounds a candidate is dropped only by `early_stop`, or when slower by the factor `far` beyond
  // doubt.
  int min_rounds = 6;
  double far = 1.25;
  // Candidates whose times differ by less than this factor are as good as each other.
  double same = 1.02;
  // Early stop: a candidate is dropped after one, two or three rounds if it took more than this many times the leader's
  // time in each of them. A spike may hit one run, or two, but hardly three, and none is that high. Where runs are
  // long, this leaves the budget to those that may win; at least two stay.
  std::array<double, 3> early_stop = {12.0, 8.0, 2.0};
  // Chance of error allowed on each side of an interval. 0.02 needs 6 rounds that agree.
  double error = 0.02;
  // For dropping a candidate where the ratios scatter by more than `noisy` (quartiles apart / median): in a disturbed
  // phase a fast candidate loses six rounds in a row more often than in quiet times. 0.004 needs 8.
  double noisy_error = 0.004;
  double noisy = 0.1;
  // [candidates] factor by which a candidate must be faster than one with 1 to be as good; empty: 1 for all.
  std::vector<double> handicaps;
};

// The interval that holds the median of what `samples` were drawn from, but for a chance of `error` on each side.
// Samples too few to say give an unbounded one.
struct MedianInterval {
  double median = 0.0;
  double low = 0.0;
  double high = 0.0;
};
MedianInterval IntervalOfMedian(std::vector<double> samples, double error);

// For one thread.
class Contest {
 public:
  // Candidate 0 is the default. REQUIRES: count >= 1.
  explicit Contest(int count, ContestOptions options = {});

  // Who runs in the next round, in the order they are to run in, which changes from round to round so that nobody
  // always follows the same one. Empty when all is decided.
  std::vector<int> NextRound() const;
  // Times of a round, one per candidate of NextRound(), in its order; empty for a sample that was dropped.
  void AddRound(const std::vector<std::optional<double>>& seconds);

  int rounds() const { return static_cast<int>(rounds_.size()); }
  bool in_play(int candidate) const { return in_play_[candidate]; }

  struct Standing {
    int64_t samples = 0;
    double median_seconds = 0.0;
    double spread = 0.0;  // (third quartile - first quartile) / median
    double ratio = 0.0;   // median over rounds of its time / the default's; 0 when they never met
  };
  Standing StandingOf(int candidate) const;

  struct Verdict {
    int winner = 0;
    double gain = 1.0;     // time of the default / time of the winner
    bool decided = false;  // by the samples; false: the budget ended before
    bool kept = false;     // another led, but not beyond doubt, so the default stays
  };
  Verdict Judge() const;

 private:
  using Round = std::vector<double>;  // by candidate; 0: no sample

  double HandicapOf(int candidate) const;
  // Ratios of a's time to b's, each with its handicap, in the rounds where both have one, sorted.
  std::vector<double> Ratios(int a, int b) const;
  // What their median is without handicaps.
  double PlainRatio(int a, int b) const;
  bool ClearlySlower(int candidate, int leader, double by) const;
  bool FarSlower(int candidate, int leader) const;
  int Leader() const;
  void Eliminate();
  bool Settled(int leader) const;

  const int count_;
  const ContestOptions options_;
  std::vector<int> order_;  // of the round that is under way
  std::vector<bool> in_play_;
  std::vector<Round> rounds_;
  bool settled_ = false;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNE_CONTEST_H_
