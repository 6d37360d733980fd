// SPDX-License-Identifier: Apache-2.0
// Reservations keep the state of their budget alive, so that each may outlive it. The lock protects arithmetic on a few
// words; evictors run outside it, and the reservation is retried after each of them.
#include "engine/memory/memory_budget.h"

#include <algorithm>
#include <limits>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/mutex.h"

namespace vicinal {
namespace {

// a + b, or the largest number. REQUIRES: neither is negative.
int64_t SaturatedSum(int64_t a, int64_t b) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  return a > kMax - b ? kMax : a + b;
}

}  // namespace

namespace internal {

class BudgetState {
 public:
  // A request for `bytes` in total, in place of `consumed_bytes` of `consumed`.
  struct Request {
    Request(Account for_account, int64_t for_bytes, std::string_view for_what, const ReserveOptions& options)
        : account(for_account),
          bytes(for_bytes),
          what(for_what),
          replace(options.replace),
          own_bytes(options.own_bytes),
          evict(options.evict),
          consumed(for_account) {}

    Account account;
    int64_t bytes;
    std::string_view what;
    bool replace;
    bool reserve = true;  // false: only check whether it fits
    int64_t own_bytes;
    bool evict;
    Account consumed;
    int64_t consumed_bytes = 0;
  };

  explicit BudgetState(int64_t budget_bytes)
      : limit_(budget_bytes > 0 ? budget_bytes : std::numeric_limits<int64_t>::max()), bounded_(budget_bytes > 0) {}

  Status Take(const Request& request) VICINAL_EXCLUDES(mutex_) {
    if (request.bytes < 0 || request.own_bytes < 0) {
      return Internal(absl::StrCat("a reservation of ", request.bytes, " bytes for ", std::string(request.what)));
    }
    if (request.bytes > limit_ - request.own_bytes) return NeverFits(request);
    std::shared_ptr<const Evictors> evictors;
    {
      MutexLock lock(&mutex_);
      if (TakeIfFits(request)) return OkStatus();
      if (!request.evict || !EvictionMaySuffice(request) || ThreadEvicts()) return DoesNotFit(request);
      evicting_.push_back(std::this_thread::get_id());
      evictors = evictors_;
    }
    const bool taken = EvictUntilTaken(request, *evictors);
    MutexLock lock(&mutex_);
    evicting_.erase(std::find(evicting_.begin(), evicting_.end(), std::this_thread::get_id()));
    return taken || TakeIfFits(request) ? OkStatus() : DoesNotFit(request);
  }

  void Release(Account account, int64_t bytes) VICINAL_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    held_.*FieldOf(account) -= bytes;
    total_ -= bytes;
  }

  void Transfer(Account from, Account to, int64_t bytes) VICINAL_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    held_.*FieldOf(from) -= bytes;
    held_.*FieldOf(to) += bytes;
  }

  MemoryUse Snapshot() const VICINAL_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    return {held_, bounded_ ? limit_ : 0};
  }

  void AddEvictor(Account account, MemoryBudget::Evictor evict) VICINAL_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    auto more = std::make_shared<Evictors>(*evictors_);
    more->push_back({account, std::move(evict)});
    evictors_ = std::move(more);
  }

  void ForgetEvictors() VICINAL_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    evictors_ = std::make_shared<const Evictors>();
  }

 private:
  struct AccountEvictor {
    Account account;
    MemoryBudget::Evictor evict;
  };
  using Evictors = std::vector<AccountEvictor>;

  // Above 0 if `request` does not fit. Nothing overflows: total_ and request.bytes are at most limit_ each.
  int64_t Missing(const Request& request) const VICINAL_REQUIRES(mutex_) {
    return request.bytes - (limit_ - (total_ - request.consumed_bytes));
  }

  bool TakeIfFits(const Request& request) VICINAL_REQUIRES(mutex_) {
    if (Missing(request) > 0) return false;
    if (!request.reserve) return true;
    held_.*FieldOf(request.consumed) -= request.consumed_bytes;
    held_.*FieldOf(request.account) += request.bytes;
    total_ += request.bytes - request.consumed_bytes;
    return true;
  }

  // Evicted objects must be rebuilt, so nothing is evicted if that would not suffice.
  bool EvictionMaySuffice(const Request& request) const VICINAL_REQUIRES(mutex_) {
    int64_t evictable = 0;
    for (const AccountEvictor& evictor : *evictors_) evictable += held_.*FieldOf(evictor.account);
    return !evictors_->empty() && evictable >= Missing(request);
  }

  bool ThreadEvicts() const VICINAL_REQUIRES(mutex_) {
    return std::find(evicting_.begin(), evicting_.end(), std::this_thread::get_id()) != evicting_.end();
  }

  // Continues as long as anything is freed: other threads may have reserved the freed bytes.
  bool EvictUntilTaken(const Request& request, const Evictors& evictors) VICINAL_EXCLUDES(mutex_) {
    for (bool freed = true; freed;) {
      freed = false;
      for (const AccountEvictor& evictor : evictors) {
        int64_t missing = 0;
        {
          MutexLock lock(&mutex_);
          if (TakeIfFits(request)) return true;
          missing = Missing(request);
        }
        freed = evictor.evict(missing) || freed;
      }
    }
    return false;
  }

  Status NeverFits(const Request& request) const {
    return OverBudget(request.what, SaturatedSum(request.bytes, request.own_bytes), limit_);
  }

  Status DoesNotFit(const Request& request) const VICINAL_REQUIRES(mutex_) {
    HeldBytes others = held_;
    others.*FieldOf(request.consumed) -= request.consumed_bytes;
    return BudgetFull(request.what, request.bytes, limit_, others, {request.replace, request.own_bytes});
  }

  const int64_t limit_;
  const bool bounded_;
  mutable Mutex mutex_;
  HeldBytes held_ VICINAL_GUARDED_BY(mutex_);
  int64_t total_ VICINAL_GUARDED_BY(mutex_) = 0;  // of held_
  std::shared_ptr<const Evictors> evictors_ VICINAL_GUARDED_BY(mutex_) = std::make_shared<const Evictors>();
  std::vector<std::thread::id> evicting_ VICINAL_GUARDED_BY(mutex_);  // threads inside EvictUntilTaken
};

}  // namespace internal

using internal::BudgetState;

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this == &other) return *this;
  Release();
  state_ = std::exchange(other.state_, nullptr);
  account_ = other.account_;
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

Status Reservation::Grow(int64_t bytes, std::string_view what, const ReserveOptions& options) {
  if (state_ == nullptr || options.consumed != nullptr) return Internal("this reservation cannot grow");
  if (bytes < 0) return Internal(absl::StrCat("a reservation grows by ", bytes, " bytes for ", std::string(what)));
  BudgetState::Request request(account_, SaturatedSum(bytes_, bytes), what, options);
  request.consumed_bytes = bytes_;
  VICINAL_RETURN_IF_ERROR(state_->Take(request));
  bytes_ = request.bytes;
  return OkStatus();
}

void Reservation::Shrink(int64_t bytes) {
  const int64_t kept = std::clamp<int64_t>(bytes, 0, bytes_);
  if (kept == bytes_) return;
  state_->Release(account_, bytes_ - kept);
  bytes_ = kept;
}

Reservation Reservation::Split(int64_t bytes) {
  const int64_t moved = std::clamp<int64_t>(bytes, 0, bytes_);
  bytes_ -= moved;
  return Reservation(state_, account_, moved);
}

void Reservation::Merge(Reservation other) {
  if (!other) return;
  if (state_ == nullptr) {
    *this = std::move(other);
    return;
  }
  VICINAL_CHECK(state_ == other.state_);
  other.TransferTo(account_);
  bytes_ += std::exchange(other.bytes_, 0);
}

void Reservation::TransferTo(Account account) {
  if (state_ != nullptr && account != account_) state_->Transfer(account_, account, bytes_);
  account_ = account;
}

void Reservation::Release() {
  if (bytes_ > 0) state_->Release(account_, bytes_);
  bytes_ = 0;
  state_ = nullptr;
}

MemoryBudget::MemoryBudget(int64_t budget_bytes) : state_(std::make_shared<BudgetState>(budget_bytes)) {}

MemoryBudget::~MemoryBudget() { state_->ForgetEvictors(); }

void MemoryBudget::AddEvictor(Account account, Evictor evict) { state_->AddEvictor(account, std::move(evict)); }

StatusOr<Reservation> MemoryBudget::Reserve(Account account, int64_t bytes, std::string_view what,
                                            const ReserveOptions& options) {
  BudgetState::Request request(account, bytes, what, options);
  if (options.consumed != nullptr && *options.consumed) {
    VICINAL_CHECK(options.consumed->state_ == state_);
    request.consumed = options.consumed->account_;
    request.consumed_bytes = options.consumed->bytes_;
  }
  VICINAL_RETURN_IF_ERROR(state_->Take(request));
  if (options.consumed != nullptr) {
    options.consumed->bytes_ = 0;
    options.consumed->state_ = nullptr;
  }
  return Reservation(state_, account, bytes);
}

Status MemoryBudget::Check(int64_t bytes, std::string_view what, const ReserveOptions& options) {
  BudgetState::Request request(Account::kRequests, bytes, what, options);
  request.reserve = false;
  return state_->Take(request);
}

MemoryUse MemoryBudget::Snapshot() const { return state_->Snapshot(); }

}  // namespace vicinal
