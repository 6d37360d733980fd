// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/plan_memory.h"

#include <utility>

namespace vicinal {
namespace {

constexpr char kRunning[] = "running this model on this graph";

}  // namespace

Status PlanMemory::Admit(int64_t bytes) {
  const ReserveOptions options = {.evict = evict_};
  if (memory_) return memory_.Grow(bytes, kRunning, options);
  VICINAL_ASSIGN_OR_RETURN(memory_, budget_.Reserve(Account::kRequests, beside_ + bytes, kRunning, options));
  return OkStatus();
}

std::shared_ptr<Plan> PlanMemory::Keep(std::shared_ptr<Plan> plan) {
  Reservation kept = memory_.Split(plan->size_bytes());
  kept.TransferTo(Account::kPlans);
  return WithReservation(std::move(plan), std::move(kept));
}

}  // namespace vicinal
