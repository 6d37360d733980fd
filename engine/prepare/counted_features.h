// SPDX-License-Identifier: Apache-2.0
// Features that come with a request or with a model's reference, and count against the memory budget: what is made of
// their tensors before it is made, the matrix for as long as it lives.
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

// Holds `bytes` of `budget` for `what`, where they are worth counting: null up to a mebibyte. Errors: MemoryBudget's.
StatusOr<std::shared_ptr<const void>> HoldLarge(int64_t bytes, std::string_view what, MemoryBudget* budget);

// `features`, which count as `held` (null: not at all) says for as long as they live.
StatusOr<std::shared_ptr<const FeatureMatrix>> Counted(StatusOr<std::shared_ptr<const FeatureMatrix>> features,
                                                       std::shared_ptr<const void> held);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_PREPARE_COUNTED_FEATURES_H_
