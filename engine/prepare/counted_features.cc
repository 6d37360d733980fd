// SPDX-License-Identifier: Apache-2.0
#include "engine/prepare/counted_features.h"

#include <utility>

namespace vicinal {
namespace {

// Less than this is not worth counting against the budget.
constexpr int64_t kSmallBytes = 1 << 20;

}  // namespace

StatusOr<std::shared_ptr<const void>> HoldLarge(int64_t bytes, std::string_view what, MemoryBudget* budget) {
  if (bytes <= kSmallBytes) return std::shared_ptr<const void>();
  return budget->Hold(bytes, what);
}

StatusOr<std::shared_ptr<const FeatureMatrix>> Counted(StatusOr<std::shared_ptr<const FeatureMatrix>> features,
                                                       std::shared_ptr<const void> held) {
  if (!features.ok() || held == nullptr) return features;
  const FeatureMatrix* const matrix = features->get();
  using Both = std::pair<std::shared_ptr<const void>, std::shared_ptr<const FeatureMatrix>>;
  return std::shared_ptr<const FeatureMatrix>(std::make_shared<Both>(std::move(held), *std::move(features)), matrix);
}

}  // namespace vicinal
