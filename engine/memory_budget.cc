// SPDX-License-Identifier: Apache-2.0
#include "engine/memory_budget.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal {

Status MemoryBudget::Admit(int64_t bytes, std::string_view what) const {
  return AdmitBeside(other_bytes_ ? other_bytes_() : 0, bytes, what);
}

Status MemoryBudget::AdmitBeside(int64_t others, int64_t bytes, std::string_view what) const {
  if (budget_bytes_ <= 0) return OkStatus();
  if (bytes > budget_bytes_) {
    return FailedPrecondition(
        "OVER_BUDGET", absl::StrCat(std::string(what), " needs up to ", bytes, " bytes, but this server may use ",
                                    budget_bytes_, " in all (--memory_budget_bytes)"));
  }
  const auto missing = [&] { return Used() + others + bytes - budget_bytes_; };
  int64_t over = missing();
  // First what costs least to have again.
  if (over > 0 && give_way_) {
    give_way_();
    over = missing();
  }
  if (over > 0) {
    plans_.Evict(over);
    over = missing();
  }
  if (over <= 0) return OkStatus();
  return ResourceExhausted(
      "BUDGET_FULL",
      absl::StrCat(std::string(what), " needs up to ", bytes, " bytes, ", over, " more than are free of this server's ",
                   budget_bytes_, "; delete graphs, feature sets or models, end open uploads, or retry later"),
      std::chrono::seconds(1));
}

Status MemoryBudget::Reserve(int64_t bytes, std::string_view what) {
  MutexLock lock(&reserving_);
  VICINAL_RETURN_IF_ERROR(Admit(bytes, what));
  reserved_bytes_->fetch_add(bytes, std::memory_order_relaxed);
  return OkStatus();
}

StatusOr<std::shared_ptr<const void>> MemoryBudget::Hold(int64_t bytes, std::string_view what) {
  VICINAL_RETURN_IF_ERROR(Reserve(bytes, what));
  return std::shared_ptr<const void>(reserved_bytes_.get(), [reserved = reserved_bytes_, bytes](const void*) {
    reserved->fetch_sub(bytes, std::memory_order_relaxed);
  });
}

}  // namespace vicinal
