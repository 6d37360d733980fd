// SPDX-License-Identifier: Apache-2.0
#include "engine/base/budget_error.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/error.h"

namespace vicinal {
namespace {

constexpr std::chrono::seconds kRetryAfter{1};

std::string Needs(std::string_view what, int64_t bytes) {
  return absl::StrCat(std::string(what), what.empty() ? "" : " ", "needs up to ", SizeText(bytes));
}

std::string HolderList(const HeldBytes& held) {
  const std::pair<const char*, int64_t> holders[] = {{"graphs", held.graphs},
                                                     {"feature sets", held.features},
                                                     {"models", held.models},
                                                     {"preparation", held.preparing},
                                                     {"plans", held.plans},
                                                     {"kept answers", held.answers},
                                                     {"receptive fields", held.receptive_fields},
                                                     {"tuning", held.tuning},
                                                     {"requests", held.requests},
                                                     {"open uploads", held.uploads}};
  std::string list;
  for (const auto& [name, bytes] : holders) {
    if (bytes > 0) absl::StrAppend(&list, list.empty() ? "" : ", ", name, " ", SizeText(bytes));
  }
  return list.empty() ? "nothing" : list;
}

}  // namespace

Status OverBudget(std::string_view what, int64_t bytes, int64_t budget) {
  return FailedPrecondition("OVER_BUDGET", absl::StrCat(Needs(what, bytes), ", but this server may use ",
                                                        SizeText(budget), " in total (--memory_budget_bytes)"));
}

Status BudgetFull(std::string_view what, int64_t bytes, int64_t budget, const HeldBytes& held,
                  const BudgetFullOptions& options) {
  const int64_t missing = bytes - (budget - held.total());  // in this order no sum overflows
  std::string message =
      absl::StrCat(Needs(what, bytes), ", ", SizeText(missing), " more than is free of this server's ",
                   SizeText(budget), "; held by ", HolderList(held));
  if (options.replace)
    absl::StrAppend(&message, "; the old version serves until the new one is ready, so both must fit");
  absl::StrAppend(&message, "; delete graphs, feature sets or models, or start the server with a larger ",
                  "--memory_budget_bytes");
  ErrorDetail detail;
  detail.reason = "BUDGET_FULL";
  const int64_t for_good = missing - (held.transient() - options.own_bytes);  // what waiting does not free
  if (for_good > 0) {
    detail.metadata = {{"missingBytes", absl::StrCat(for_good)}};
  } else {
    absl::StrAppend(&message, ", or retry later");
    detail.retry_after = kRetryAfter;
  }
  return MakeError(StatusCode::kResourceExhausted, message, detail);
}

std::string SizeText(int64_t bytes) {
  constexpr double kMiB = 1 << 20;
  std::string text = absl::StrCat(bytes, " bytes");
  const double mib = static_cast<double>(bytes) / kMiB;
  if (mib >= 1.0) absl::StrAppend(&text, absl::StrFormat(" (%.1f MiB)", mib));
  return text;
}

}  // namespace vicinal
