// SPDX-License-Identifier: Apache-2.0
// When the pass of one key of kept answers may run: what queries paid for it, and what passes cost that came to
// nothing.
//
// Invariants: a pass runs only after queries have cost as much as a pass and as all earlier attempts. Attempts that
// requests interrupt take at most one part in kLostPart of the time since the order, but for the latest one. A pass
// that was refused or failed waits before it is tried again, twice as long each time, unless memory becomes free.
#ifndef VICINAL_ENGINE_EXECUTE_ANSWER_TALLY_H_
#define VICINAL_ENGINE_EXECUTE_ANSWER_TALLY_H_

#include <chrono>
#include <cstdint>
#include <optional>

#include "engine/base/clock.h"

namespace vicinal {

// Not thread-safe.
class AnswerTally {
 public:
  static constexpr std::chrono::seconds kFirstWait{1};
  static constexpr std::chrono::minutes kLongestWait{5};
  static constexpr int kLostPart = 8;

  // A query was computed at `share` of the cost of a pass, in `seconds`.
  void Computed(double share, double seconds);
  // Whether queries have paid for the next pass. `first_pays`: the first query is enough, unless a pass came to
  // nothing.
  bool Paid(bool first_pays) const;
  // Whether a pass may be ordered now: none is, and none waits to be tried again. `free_bytes`: what answers could
  // take.
  bool MayOrder(MonotonicTime now, int64_t free_bytes) const;
  // REQUIRES: MayOrder. Returns when the pass stops giving way to requests: `patience` seconds after the first attempt,
  // and later by what attempts lose.
  MonotonicTime Order(MonotonicTime now, double patience, int64_t free_bytes);

  // What became of the pass that was ordered, after `seconds`.
  // True: it stays ordered, with the time that Due returns. False: a later query orders it again.
  bool Interrupted(MonotonicTime now, double seconds);
  // It was refused or failed; its rows would have been `bytes`.
  void CameToNothing(MonotonicTime now, double seconds, int64_t bytes);
  MonotonicTime Due() const { return *due_; }
  bool ordered() const { return ordered_; }
  double seconds() const { return seconds_; }  // that queries took since a pass came to nothing

 private:
  double share_ = 0.0, seconds_ = 0.0;  // of queries, since a pass came to nothing
  double lost_ = 0.0;                   // seconds of all passes that came to nothing or were interrupted
  bool ordered_ = false;
  // Of the attempts at one pass, from the first order on.
  std::optional<MonotonicTime> due_;
  MonotonicTime since_{};
  double interrupted_ = 0.0;  // seconds
  // Of passes that came to nothing.
  int failures_ = 0;
  int64_t free_at_order_ = 0, wanted_free_ = 0;
  MonotonicTime retry_{};
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_ANSWER_TALLY_H_
