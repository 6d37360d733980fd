// SPDX-License-Identifier: Apache-2.0
// Places a plan's values and scratch in one arena. A booking states its bytes and its first and last step; bookings
// that are never alive together share memory.
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

  // Places every booking: largest first, at the lowest offset that is free during all its steps. Nearly linear in the
  // number of short-lived bookings; each long-lived one is compared with all others. In practice within twice the
  // optimum. Deterministic.
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
