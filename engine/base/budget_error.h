// SPDX-License-Identifier: Apache-2.0
// Error messages for memory that does not fit: how much is needed and missing, what holds the rest, and what helps.
#ifndef VICINAL_ENGINE_BASE_BUDGET_ERROR_H_
#define VICINAL_ENGINE_BASE_BUDGET_ERROR_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace vicinal {

// Bytes of one memory budget, by what they are used for.
struct HeldBytes {
  // Held until a client deletes them.
  int64_t graphs = 0, features = 0, models = 0;
  // Graphs, features and models that are being prepared or checked, and what that takes.
  int64_t preparing = 0;
  // Cached plans and those that run. Evicted where memory is needed, unless they run.
  int64_t plans = 0;
  // Workspace in which receptive fields are found and run. Evicted where memory is needed, unless a request uses it.
  int64_t receptive_fields = 0;
  // Trials of kernels on a graph.
  int64_t tuning = 0;
  // Messages of requests, their features, what they work in, and large answers until they are sent. Also graphs,
  // features and models that were deleted or replaced, while requests still use them.
  int64_t requests = 0;
  // Chunks of uploads that are not finished.
  int64_t uploads = 0;

  // All that is freed without a client's deleting it.
  int64_t transient() const { return preparing + plans + receptive_fields + tuning + requests + uploads; }
  int64_t total() const { return graphs + features + models + transient(); }
};

// Both errors name `what` first, unless it is empty, and the bytes that it needs.

// FAILED_PRECONDITION (OVER_BUDGET): the bytes can never fit.
Status OverBudget(std::string_view what, int64_t bytes, int64_t budget);

struct BudgetFullOptions {
  bool replace = false;   // what is replaced serves until then: says that both must fit
  int64_t own_bytes = 0;  // part of HeldBytes::transient() that waiting will not free: the caller holds them
};
// RESOURCE_EXHAUSTED (BUDGET_FULL): the bytes do not fit beside `held`. With RetryInfo only where enough is held by
// what is freed without a client's deleting it; without, waiting will not help.
Status BudgetFull(std::string_view what, int64_t bytes, int64_t budget, const HeldBytes& held,
                  const BudgetFullOptions& options = {});

// "1234 bytes"; from one mebibyte on "2097152 bytes (2.0 MiB)".
std::string SizeText(int64_t bytes);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_BASE_BUDGET_ERROR_H_
