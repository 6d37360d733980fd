// SPDX-License-Identifier: Apache-2.0
#include "engine/tune/contest.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "engine/base/check.h"

namespace vicinal {
namespace {

// Too few rounds for an interval suffice for a winner that saved this much in each of them: a spike, which hits one run
// in ten, would have had to hit the default every time.
constexpr size_t kPlainRounds = 3;
constexpr double kPlainGain = 0.85;
// After this many rounds the median decides, even if the difference is not significant.
constexpr size_t kManyRounds = 20;

// REQUIRES: sorted, not empty. Interpolates between two values.
double Quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

// REQUIRES: sorted. 0 if there are none.
double SpreadOf(const std::vector<double>& sorted) {
  return sorted.empty() ? 0.0 : (Quantile(sorted, 0.75) - Quantile(sorted, 0.25)) / Quantile(sorted, 0.5);
}

// The largest k such that fewer than k of n fair coins show heads with a chance of at most `error`: the k-th smallest
// of n samples is a lower bound of the median with that error. 0 when n is too small for any.
int BoundRank(int n, double error) {
  double chance = std::pow(0.5, n), below = 0.0;
  int k = 0;
  while (k < n && below + chance <= error) {
    below += chance;
    chance *= static_cast<double>(n - k) / static_cast<double>(k + 1);
    ++k;
  }
  return k;
}

}  // namespace

MedianInterval IntervalOfMedian(std::vector<double> samples, double error) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (samples.empty()) return {0.0, -kInfinity, kInfinity};
  std::sort(samples.begin(), samples.end());
  MedianInterval interval = {Quantile(samples, 0.5), -kInfinity, kInfinity};
  if (const int rank = BoundRank(static_cast<int>(samples.size()), error); rank > 0) {
    interval.low = samples[rank - 1];
    interval.high = samples[samples.size() - rank];
  }
  return interval;
}

Contest::Contest(int count, ContestOptions options)
    : count_(count), options_(std::move(options)), in_play_(count, true) {
  VICINAL_CHECK(count >= 1);
  VICINAL_CHECK(options_.handicaps.empty() || static_cast<int>(options_.handicaps.size()) == count);
  settled_ = count == 1;
}

std::vector<int> Contest::NextRound() const {
  if (settled_ || rounds() >= options_.max_rounds) return {};
  std::vector<int> order;
  for (int c = 0; c < count_; ++c)
    if (in_play_[c]) order.push_back(c);
  // Shuffled for each pair of rounds; the second round of a pair runs backwards. The caches that a run leaves behind
  // affect the next candidate, so no candidate may follow the same one for long. The same on every machine.
  uint64_t state = static_cast<uint64_t>(rounds() / 2);
  for (size_t left = order.size(); left > 1; --left) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    std::swap(order[left - 1], order[(state >> 33) % left]);
  }
  if (rounds() % 2 == 1) std::reverse(order.begin(), order.end());
  return order;
}

void Contest::AddRound(const std::vector<std::optional<double>>& seconds) {
  const std::vector<int> order = NextRound();
  VICINAL_CHECK(seconds.size() == order.size());
  Round round(count_, 0.0);
  for (size_t i = 0; i < order.size(); ++i) round[order[i]] = seconds[i].value_or(0.0);
  rounds_.push_back(std::move(round));
  Eliminate();
}

double Contest::HandicapOf(int candidate) const {
  return options_.handicaps.empty() ? 1.0 : options_.handicaps[candidate];
}

double Contest::PlainRatio(int a, int b) const {
  return IntervalOfMedian(Ratios(a, b), options_.error).median * HandicapOf(b) / HandicapOf(a);
}

std::vector<double> Contest::Ratios(int a, int b) const {
  const double handicap = HandicapOf(a) / HandicapOf(b);
  std::vector<double> ratios;
  for (const Round& round : rounds_)
    if (round[a] > 0.0 && round[b] > 0.0) ratios.push_back(round[a] / round[b] * handicap);
  std::sort(ratios.begin(), ratios.end());
  return ratios;
}

bool Contest::ClearlySlower(int candidate, int leader, double by) const {
  const std::vector<double> ratios = Ratios(candidate, leader);
  const bool noisy = SpreadOf(ratios) > options_.noisy;
  return IntervalOfMedian(ratios, noisy ? options_.noisy_error : options_.error).low > by;
}

bool Contest::FarSlower(int candidate, int leader) const {
  const std::vector<double> ratios = Ratios(candidate, leader);
  if (ratios.empty()) return false;
  return ratios.front() > options_.early_stop[std::min(ratios.size(), options_.early_stop.size()) - 1];
}

// The remaining candidate that no other beats by median ratio; the lowest median time decides ties and cycles.
int Contest::Leader() const {
  int leader = -1;
  for (int c = 0; c < count_; ++c) {
    if (!in_play_[c] || StandingOf(c).samples == 0) continue;
    if (leader < 0) {
      leader = c;
      continue;
    }
    const MedianInterval ratio = IntervalOfMedian(Ratios(c, leader), options_.error);
    if (ratio.median > 0.0 && ratio.median < 1.0) leader = c;
  }
  return std::max(leader, 0);
}

void Contest::Eliminate() {
  const int leader = Leader();
  const bool early = rounds() < options_.min_rounds;
  int64_t left = std::count(in_play_.begin(), in_play_.end(), true);
  for (int c = 0; c < count_; ++c) {
    if (c == leader || !in_play_[c] || (early && left <= 2)) continue;
    const bool slower = ClearlySlower(c, leader, early ? options_.far : 1.0);
    if (!slower && !(early && FarSlower(c, leader))) continue;
    in_play_[c] = false;
    --left;
  }
  settled_ = Settled(leader);
}

bool Contest::Settled(int leader) const {
  if (rounds() < options_.min_rounds && std::count(in_play_.begin(), in_play_.end(), true) > 1) return false;
  for (int c = 0; c < count_; ++c) {
    if (c == leader || !in_play_[c]) continue;
    const MedianInterval ratio = IntervalOfMedian(Ratios(c, leader), options_.error);
    if (ratio.low < 1.0 / options_.same || ratio.high > options_.same) return false;
  }
  return true;
}

Contest::Standing Contest::StandingOf(int candidate) const {
  std::vector<double> samples;
  for (const Round& round : rounds_)
    if (round[candidate] > 0.0) samples.push_back(round[candidate]);
  Standing standing;
  standing.samples = static_cast<int64_t>(samples.size());
  if (samples.empty()) return standing;
  std::sort(samples.begin(), samples.end());
  standing.median_seconds = Quantile(samples, 0.5);
  standing.spread = SpreadOf(samples);
  standing.ratio = candidate == 0 ? 1.0 : PlainRatio(candidate, 0);
  return standing;
}

Contest::Verdict Contest::Judge() const {
  Verdict verdict;
  verdict.decided = settled_;
  const int leader = Leader();
  if (leader == 0) return verdict;
  const std::vector<double> ratios = Ratios(leader, 0);
  const MedianInterval ratio = IntervalOfMedian(ratios, options_.error);
  // If runs are long, the budget may end before an interval has bounds.
  const bool plain = rounds() < options_.min_rounds && ratios.size() >= kPlainRounds && ratios.back() < kPlainGain;
  const bool likely = ratios.size() >= kManyRounds && ratio.median < 1.0 / options_.same;
  if (in_play_[0] && !(ratio.high < 1.0) && !plain && !likely) {
    verdict.kept = true;
    return verdict;
  }
  verdict.winner = leader;
  if (ratio.median > 0.0) verdict.gain = 1.0 / PlainRatio(leader, 0);
  return verdict;
}

}  // namespace vicinal
