// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/build/scratch_ledger.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace vicinal::internal {
namespace {

// Bytes [begin, end).
struct Taken {
  size_t begin = 0;
  size_t end = 0;
};

// The bytes that are taken at each step. Nearly all bookings are short-lived and listed per step; the others are in one
// list. So a lookup of a few steps is fast for any number of bookings.
class TakenBySteps {
 public:
  explicit TakenBySteps(int steps) : brief_(steps) {}

  void Add(int first, int last, Taken taken) {
    if (last - first >= kBrief) {
      lasting_.push_back({{first, last}, taken});
      return;
    }
    for (int step = first; step <= last; ++step) brief_[step].push_back(taken);
  }

  // All ranges that are taken at any of the steps, sorted by begin; may contain duplicates.
  const std::vector<Taken>& During(int first, int last) {
    found_.clear();
    for (int step = first; step <= last; ++step) {
      found_.insert(found_.end(), brief_[step].begin(), brief_[step].end());
    }
    for (const auto& [steps, taken] : lasting_) {
      if (first <= steps.second && steps.first <= last) found_.push_back(taken);
    }
    std::sort(found_.begin(), found_.end(), [](const Taken& a, const Taken& b) { return a.begin < b.begin; });
    return found_;
  }

 private:
  static constexpr int kBrief = 8;

  std::vector<std::vector<Taken>> brief_;
  std::vector<std::pair<std::pair<int, int>, Taken>> lasting_;
  std::vector<Taken> found_;
};

}  // namespace

int ScratchLedger::Book(size_t bytes, int first, int last) {
  bookings_.push_back({(bytes + kAlignment - 1) / kAlignment * kAlignment, first, last, 0});
  return static_cast<int>(bookings_.size()) - 1;
}

void ScratchLedger::Assign() {
  std::vector<int> by_size(bookings_.size());
  std::iota(by_size.begin(), by_size.end(), 0);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](int a, int b) { return bookings_[a].bytes > bookings_[b].bytes; });

  total_bytes_ = 0;
  int steps = 0;
  for (const Booking& booking : bookings_) steps = std::max(steps, booking.last + 1);
  TakenBySteps placed(steps);
  for (int id : by_size) {
    Booking& booking = bookings_[id];
    booking.offset = 0;
    for (const Taken& other : placed.During(booking.first, booking.last)) {
      if (booking.offset + booking.bytes <= other.begin) break;  // fits into the gap before `other`
      booking.offset = std::max(booking.offset, other.end);
    }
    placed.Add(booking.first, booking.last, {booking.offset, booking.offset + booking.bytes});
    total_bytes_ = std::max(total_bytes_, booking.offset + booking.bytes);
  }
}

}  // namespace vicinal::internal
