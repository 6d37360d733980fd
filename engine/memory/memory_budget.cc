// SPDX-License-Identifier: Apache-2.0
#include "engine/memory/memory_budget.h"

namespace vicinal {

Status MemoryBudget::Admit(int64_t bytes, std::string_view what) const {
  return AdmitBeside(holders_.uploads ? holders_.uploads() : 0, bytes, what, /*replace=*/false);
}

HeldBytes MemoryBudget::Held(int64_t uploads) const {
  HeldBytes held = holders_.held ? holders_.held() : HeldBytes();
  held.requests = reserved_bytes();
  held.uploads = uploads;
  return held;
}

Status MemoryBudget::AdmitBeside(int64_t others, int64_t bytes, std::string_view what, bool replace) const {
  if (budget_bytes_ <= 0) return OkStatus();
  if (bytes > budget_bytes_) return OverBudget(what, bytes, budget_bytes_);
  HeldBytes held = Held(others);
  const auto missing = [&] { return held.total() + bytes - budget_bytes_; };
  // First what costs least to have again.
  if (missing() > 0 && holders_.give_way) {
    holders_.give_way();
    held = Held(others);
  }
  // Again where another request has put a new plan into the place meanwhile.
  while (missing() > 0 && holders_.evict_plans && holders_.evict_plans(missing()) > 0) held = Held(others);
  return missing() <= 0 ? OkStatus() : BudgetFull(what, bytes, budget_bytes_, held, replace);
}

Status MemoryBudget::Reserve(int64_t bytes, std::string_view what) {
  MutexLock lock(&reserving_);
  VICINAL_RETURN_IF_ERROR(Admit(bytes, what));
  reserved_bytes_->fetch_add(bytes, std::memory_order_relaxed);
  return OkStatus();
}

std::shared_ptr<const void> MemoryBudget::HolderOf(int64_t bytes) const {
  return std::shared_ptr<const void>(reserved_bytes_.get(), [reserved = reserved_bytes_, bytes](const void*) {
    reserved->fetch_sub(bytes, std::memory_order_relaxed);
  });
}

StatusOr<std::shared_ptr<const void>> MemoryBudget::Hold(int64_t bytes, std::string_view what) {
  VICINAL_RETURN_IF_ERROR(Reserve(bytes, what));
  return HolderOf(bytes);
}

StatusOr<std::shared_ptr<const void>> MemoryBudget::HoldMadeOfOthers(int64_t bytes, std::string_view what,
                                                                     bool replace) {
  MutexLock lock(&reserving_);
  VICINAL_RETURN_IF_ERROR(AdmitMadeOfOthers(bytes, what, replace));
  reserved_bytes_->fetch_add(bytes, std::memory_order_relaxed);
  return HolderOf(bytes);
}

}  // namespace vicinal
