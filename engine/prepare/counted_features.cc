// SPDX-License-Identifier: Apache-2.0
#include "engine/prepare/counted_features.h"

#include <utility>

namespace vicinal {
namespace {

// Less than this is not worth counting against the budget.
constexpr int64_t kSmallBytes = 1 << 20;

}  // namespace

bool IsLarge(int64_t bytes) { return bytes > kSmallBytes; }

StatusOr<Reservation> ReserveLarge(int64_t bytes, std::string_view what, MemoryBudget* budget, Reservation* consumed) {
  if (!IsLarge(bytes)) return Reservation();
  ReserveOptions options;
  options.consumed = consumed;
  return budget->Reserve(Account::kRequests, bytes, what, options);
}

StatusOr<std::shared_ptr<const FeatureMatrix>> Counted(StatusOr<std::shared_ptr<const FeatureMatrix>> features,
                                                       Reservation memory) {
  if (!features.ok()) return features;
  return WithReservation(*std::move(features), std::move(memory));
}

}  // namespace vicinal
