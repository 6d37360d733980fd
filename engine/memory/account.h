// SPDX-License-Identifier: Apache-2.0
// The accounts of the memory budget, and the reserved bytes of each.
#ifndef VICINAL_ENGINE_MEMORY_ACCOUNT_H_
#define VICINAL_ENGINE_MEMORY_ACCOUNT_H_

#include <cstdint>

#include "engine/base/budget_error.h"

namespace vicinal {

// Each reservation belongs to one account. HeldBytes (engine/base/budget_error.h) describes what each covers.
enum class Account {
  kGraphs,
  kFeatures,
  kModels,
  kPreparing,
  kPlans,
  kAnswers,
  kReceptiveFields,
  kTuning,
  kRequests,
  kUploads,
};

// The field of HeldBytes that belongs to `account`.
constexpr int64_t HeldBytes::*FieldOf(Account account) {
  switch (account) {
    case Account::kGraphs:
      return &HeldBytes::graphs;
    case Account::kFeatures:
      return &HeldBytes::features;
    case Account::kModels:
      return &HeldBytes::models;
    case Account::kPreparing:
      return &HeldBytes::preparing;
    case Account::kPlans:
      return &HeldBytes::plans;
    case Account::kAnswers:
      return &HeldBytes::answers;
    case Account::kReceptiveFields:
      return &HeldBytes::receptive_fields;
    case Account::kTuning:
      return &HeldBytes::tuning;
    case Account::kRequests:
      return &HeldBytes::requests;
    case Account::kUploads:
      return &HeldBytes::uploads;
  }
  return nullptr;
}

}  // namespace vicinal

#endif  // VICINAL_ENGINE_MEMORY_ACCOUNT_H_
