// SPDX-License-Identifier: Apache-2.0
// Memory of tensors that come with a request or a model's reference. Small amounts are not counted.
#ifndef VICINAL_ENGINE_PREPARE_COUNTED_FEATURES_H_
#define VICINAL_ENGINE_PREPARE_COUNTED_FEATURES_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "engine/base/status.h"
#include "engine/graph/validate.h"
#include "engine/memory/memory_budget.h"
#include "engine/prepared/prepared_graph.h"

namespace vicinal {

// Whether bytes of a request are counted against the budget: from one mebibyte on.
bool IsLarge(int64_t bytes);

// Reserves `bytes` of `budget` for a request's `what`, in place of `consumed` (null: none). If they are not large it
// returns an empty reservation and does not touch `consumed`. Errors of MemoryBudget.
StatusOr<Reservation> ReserveLarge(int64_t bytes, std::string_view what, MemoryBudget* budget,
                                   Reservation* consumed = nullptr);

// `features` that own `memory`, which may be empty.
StatusOr<std::shared_ptr<const FeatureMatrix>> Counted(StatusOr<std::shared_ptr<const FeatureMatrix>> features,
                                                       Reservation memory);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_PREPARE_COUNTED_FEATURES_H_
