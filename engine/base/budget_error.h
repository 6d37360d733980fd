// SPDX-License-Identifier: Apache-2.0
// Errors for memory that does not fit: the needed and missing bytes, what holds the rest, and how to fix it.
#ifndef VICINAL_ENGINE_BASE_BUDGET_ERROR_H_
#define VICINAL_ENGINE_BASE_BUDGET_ERROR_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace vicinal {

// Bytes of one memory budget by use.
struct HeldBytes {
  // Kept until a client deletes them.
  int64_t graphs = 0, features = 0, models = 0;
  // Graphs, features and models that are being prepared or checked, with their temporary memory.
  int64_t preparing = 0;
  // Cached and running plans. Evicted if memory is needed, unless they run.
  int64_t plans = 0;
  // Kept answers. The first to be evicted if memory is needed.
  int64_t answers = 0;
  // Workspace of receptive fields. Evicted if memory is needed, unless a request uses it.
  int64_t receptive_fields = 0;
  // Trials of kernels on a graph.
  int64_t tuning = 0;
  // Messages of requests, their features and workspace, and large answers until they are sent. Also graphs, features
  // and models that were deleted or replaced, while requests still use them.
  int64_t requests = 0;
  // Chunks of uploads that are not finished.
  int64_t uploads = 0;

  // Bytes that are freed without a deletion by a client.
  int64_t transient() const { return preparing + plans + answers + receptive_fields + tuning + requests + uploads; }
  int64_t total() const { return graphs + features + models + transient(); }
};

// Both errors name `what` first, unless it is empty, and the bytes that it needs.

// FAILED_PRECONDITION (OVER_BUDGET): the bytes can never fit.
Status OverBudget(std::string_view what, int64_t bytes, int64_t budget);

struct BudgetFullOptions {
  bool replace = false;   // the replaced version serves until then: the message says that both must fit
  int64_t own_bytes = 0;  // part of HeldBytes::transient() that waiting will not free, because the caller holds it
};
// RESOURCE_EXHAUSTED (BUDGET_FULL): the bytes do not fit beside `held`. Has RetryInfo only if enough bytes will be
// freed without a deletion; otherwise waiting will not help.
Status BudgetFull(std::string_view what, int64_t bytes, int64_t budget, const HeldBytes& held,
                  const BudgetFullOptions& options = {});

// "1234 bytes"; from one mebibyte on "2097152 bytes (2.0 MiB)".
std::string SizeText(int64_t bytes);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_BASE_BUDGET_ERROR_H_
