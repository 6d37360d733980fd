// SPDX-License-Identifier: Apache-2.0
// What is said of memory that does not fit: how much is wanted and missing, who holds the rest, and what helps. One
// wording for all who admit: the engine's budget, its stores, and uploads.
#ifndef VICINAL_ENGINE_BASE_BUDGET_ERROR_H_
#define VICINAL_ENGINE_BASE_BUDGET_ERROR_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace vicinal {

// Bytes of one budget, by who holds them.
struct HeldBytes {
  // Until somebody deletes them.
  int64_t graphs = 0, features = 0, models = 0;
  // Until they end, or are evicted. preparing: promised to graphs that are being prepared; requests: what they bring,
  // work in and are answered with.
  int64_t preparing = 0, plans = 0, requests = 0, uploads = 0;

  int64_t passing() const { return preparing + plans + requests + uploads; }
  int64_t total() const { return graphs + features + models + passing(); }
};

// Both: `what` needs the bytes, and is named first, unless it is empty.
// FAILED_PRECONDITION (OVER_BUDGET): they can never fit.
Status OverBudget(std::string_view what, int64_t bytes, int64_t budget);
// RESOURCE_EXHAUSTED (BUDGET_FULL): they do not fit beside `held`. With RetryInfo only where what is missing is held by
// something that ends by itself. `replace`: what is made stands beside what it replaces for a while.
Status BudgetFull(std::string_view what, int64_t bytes, int64_t budget, const HeldBytes& held, bool replace = false);

// "1234 bytes", from a mebibyte on "2097152 bytes (2.0 MiB)".
std::string SizeText(int64_t bytes);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_BASE_BUDGET_ERROR_H_
