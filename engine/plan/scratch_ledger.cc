// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/scratch_ledger.h"

#include <algorithm>
#include <numeric>

namespace vicinal::internal {

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
  std::vector<const Booking*> placed;  // by offset
  for (int id : by_size) {
    Booking& booking = bookings_[id];
    booking.offset = 0;
    for (const Booking* other : placed) {
      const bool together = booking.first <= other->last && other->first <= booking.last;
      if (!together) continue;
      if (booking.offset + booking.bytes <= other->offset) break;  // fits into the gap before it
      booking.offset = std::max(booking.offset, other->offset + other->bytes);
    }
    const auto after = std::upper_bound(placed.begin(), placed.end(), &booking,
                                        [](const Booking* a, const Booking* b) { return a->offset < b->offset; });
    placed.insert(after, &booking);
    total_bytes_ = std::max(total_bytes_, booking.offset + booking.bytes);
  }
}

}  // namespace vicinal::internal
