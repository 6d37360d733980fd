// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/answer_tally.h"

#include <algorithm>
#include <limits>

namespace vicinal {
namespace {

// The room of a budget without a bound: more of it never comes.
constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

Nanoseconds ToNanoseconds(double seconds) {
  return std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(seconds));
}

}  // namespace

void AnswerTally::Computed(double share, double seconds) {
  share_ += share;
  seconds_ += seconds;
}

bool AnswerTally::Paid(bool first_pays) const {
  if (first_pays && failures_ == 0) return true;
  return share_ >= 1.0 && seconds_ >= lost_;
}

bool AnswerTally::MayOrder(MonotonicTime now, int64_t free_bytes) const {
  if (ordered_) return false;
  if (due_) return now >= *due_ || now >= since_ + kLostPart * ToNanoseconds(interrupted_);
  return failures_ == 0 || now >= retry_ || (wanted_free_ < kUnbounded && free_bytes >= wanted_free_);
}

MonotonicTime AnswerTally::Order(MonotonicTime now, double patience, int64_t free_bytes) {
  ordered_ = true;
  free_at_order_ = free_bytes;
  if (!due_) {
    since_ = now;
    interrupted_ = 0.0;
    due_ = now + ToNanoseconds(patience);
  }
  return *due_;
}

bool AnswerTally::Interrupted(MonotonicTime now, double seconds) {
  lost_ += seconds;
  interrupted_ += seconds;
  *due_ += ToNanoseconds(seconds);
  ordered_ = false;
  ordered_ = MayOrder(now, 0);
  return ordered_;
}

void AnswerTally::CameToNothing(MonotonicTime now, double seconds, int64_t bytes) {
  ordered_ = false;
  due_.reset();
  lost_ += seconds;
  share_ = seconds_ = 0.0;
  Nanoseconds wait = kFirstWait;
  for (int i = 0; i < failures_ && wait < kLongestWait; ++i) wait *= 2;
  retry_ = now + std::min<Nanoseconds>(wait, kLongestWait);
  ++failures_;
  // Memory that seemed to suffice did not.
  wanted_free_ = free_at_order_ < bytes ? bytes : free_at_order_ + std::min(bytes, kUnbounded - free_at_order_);
}

}  // namespace vicinal
