// SPDX-License-Identifier: Apache-2.0
// Scratch memory of a plan, booked while planning and granted while running: every booking says how many bytes it needs
// and from which step to which step, and all of them get a place in one arena. Bookings that are never alive together
// share bytes.
#ifndef VICINAL_ENGINE_PLAN_BUILD_SCRATCH_LEDGER_H_
#define VICINAL_ENGINE_PLAN_BUILD_SCRATCH_LEDGER_H_

#include <cstddef>
#include <vector>

namespace vicinal::internal {

class ScratchLedger {
 public:
  // Bookings begin at multiples of this: a cache line and the widest vector.
  static constexpr size_t kAlignment = 64;

  // Books `bytes` from step `first` >= 0 to step `last`, both included; returns the booking's number, counting from 0.
  int Book(size_t bytes, int first, int last);

  // Finds a place for every booking: the largest first, each at the lowest offset that is free for all its steps.
  // Nearly linear in bookings that live for a few steps each; of those that live long, each costs a look at all of
  // them. Within twice the least possible in practice; the same input gives the same places.
  void Assign();

  // REQUIRES: Assign was called after the last Book.
  size_t offset(int booking) const { return bookings_[booking].offset; }
  size_t total_bytes() const { return total_bytes_; }

 private:
  struct Booking {
    size_t bytes = 0;
    int first = 0;
    int last = 0;
    size_t offset = 0;
  };
  std::vector<Booking> bookings_;
  size_t total_bytes_ = 0;
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_BUILD_SCRATCH_LEDGER_H_
