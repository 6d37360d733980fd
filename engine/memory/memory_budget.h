// SPDX-License-Identifier: Apache-2.0
// The one memory budget of a process: graphs, features, models, plans, uploads and requests share it. Memory is
// reserved before it is allocated, and the owner of the memory also owns the reservation, so that both end together.
//
// Invariant: the reservations of all accounts together never exceed the budget. One lock protects all accounts.
#ifndef VICINAL_ENGINE_MEMORY_MEMORY_BUDGET_H_
#define VICINAL_ENGINE_MEMORY_MEMORY_BUDGET_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "engine/base/budget_error.h"
#include "engine/base/status.h"
#include "engine/memory/account.h"

namespace vicinal {

namespace internal {
class BudgetState;
}  // namespace internal

class Reservation;

// All reservations at one moment.
struct MemoryUse : HeldBytes {
  int64_t budget = 0;  // 0: unlimited
};

struct ReserveOptions {
  // The new object replaces one that serves until then, so both must fit. Affects only the message.
  bool replace = false;
  // Bytes of this budget that the caller keeps reserved until it releases the new ones. Waiting will never free them:
  // together with them, `bytes` must fit in the budget, and they are no reason to retry.
  int64_t own_bytes = 0;
  // The new reservation replaces this one in one step, so its bytes are not counted twice. On success it is left empty,
  // on an error unchanged. Null or empty: none. Not owned; used during the call only.
  Reservation* consumed = nullptr;
  // False: fails if the bytes are not free, instead of evicting for them. For what is the first to be evicted itself.
  bool evict = true;
};

// Reserved bytes of a budget; the destructor releases them. Movable: a reservation that was moved from is empty. It may
// outlive the budget. Not thread-safe by itself, but different reservations of one budget may be used on different
// threads.
class Reservation {
 public:
  // An empty reservation, which belongs to no budget and can only be merged or assigned to.
  Reservation() = default;
  Reservation(Reservation&& other) noexcept { *this = std::move(other); }
  Reservation& operator=(Reservation&& other) noexcept;
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  ~Reservation() { Release(); }

  // Whether it belongs to a budget. A reservation of 0 bytes does, and can grow.
  explicit operator bool() const { return state_ != nullptr; }
  int64_t bytes() const { return bytes_; }
  Account account() const { return account_; }

  // Adds `bytes`. Errors of MemoryBudget::Reserve for all bytes together; this reservation then stays unchanged.
  // INTERNAL if it is empty.
  Status Grow(int64_t bytes, std::string_view what, const ReserveOptions& options = {});
  // Keeps `bytes` and releases the rest. No effect if it has no more than that. Below 0 counts as 0.
  void Shrink(int64_t bytes);
  // Moves up to `bytes` into a new reservation of the same account.
  Reservation Split(int64_t bytes);
  // Takes over the bytes of `other`, for the account of this one; an empty reservation becomes `other`. REQUIRES: both
  // belong to the same budget, or one is empty.
  void Merge(Reservation other);
  // Moves the bytes to another account. Never fails, because the total stays the same.
  void TransferTo(Account account);
  // Releases all bytes; the reservation is then empty. Idempotent.
  void Release();

 private:
  friend class MemoryBudget;
  Reservation(std::shared_ptr<internal::BudgetState> state, Account account, int64_t bytes)
      : state_(std::move(state)), account_(account), bytes_(bytes) {}

  std::shared_ptr<internal::BudgetState> state_;  // null: empty
  Account account_ = Account::kRequests;
  int64_t bytes_ = 0;
};

// Thread-safe.
//
// Locking: the budget's lock is taken last and never held while other code runs. Evictors are called without it, on the
// thread that reserves. So a caller may hold locks of its own while it reserves, unless an evictor needs one of them.
// Shrink, Split, Merge, TransferTo, Release and Snapshot call no evictor and may be called under any lock.
class MemoryBudget {
 public:
  // Frees about `bytes` of cached objects. Returns whether it freed anything. It may release reservations, and may run
  // on several threads at once. It must not reserve; if it does, nothing is evicted for it.
  using Evictor = std::function<bool(int64_t bytes)>;

  // 0 or less: unlimited; reservations are counted nevertheless.
  explicit MemoryBudget(int64_t budget_bytes);
  // Stops calling evictors. Reservations remain valid.
  ~MemoryBudget();
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // Adds an evictor, which frees memory of `account`. Evictors are called in the order of addition. Call it before the
  // first reservation; `evict` must stay callable until the last one, or until the budget is destroyed.
  void AddEvictor(Account account, Evictor evict);

  // Reserves `bytes` for `what`, which error messages name. If they do not fit, calls the evictors, unless all bytes of
  // their accounts would not suffice. FAILED_PRECONDITION (OVER_BUDGET): they can never fit. RESOURCE_EXHAUSTED
  // (BUDGET_FULL): they do not fit now. INTERNAL: `bytes` is negative.
  StatusOr<Reservation> Reserve(Account account, int64_t bytes, std::string_view what,
                                const ReserveOptions& options = {});
  // Whether Reserve would succeed now. Evicts if necessary, but reserves nothing.
  Status Check(int64_t bytes, std::string_view what, const ReserveOptions& options = {});

  // All accounts at the same moment.
  MemoryUse Snapshot() const;

 private:
  const std::shared_ptr<internal::BudgetState> state_;
};

// Budget, account and purpose, for objects that reserve repeatedly.
struct MemoryPurpose {
  MemoryBudget* budget = nullptr;  // must outlive its users
  Account account = Account::kRequests;
  std::string_view what;  // in error messages; not owned

  StatusOr<Reservation> Reserve(int64_t bytes) const { return budget->Reserve(account, bytes, what); }
};

// `object`, with `memory` as long as any copy exists. The object is destroyed first, then the bytes are released.
template <class T>
std::shared_ptr<T> WithReservation(std::shared_ptr<T> object, std::shared_ptr<const Reservation> memory) {
  T* const raw = object.get();
  using Both = std::pair<std::shared_ptr<const Reservation>, std::shared_ptr<T>>;  // destroyed from the last
  return std::shared_ptr<T>(std::make_shared<Both>(std::move(memory), std::move(object)), raw);
}
template <class T>
std::shared_ptr<T> WithReservation(std::shared_ptr<T> object, Reservation memory) {
  if (!memory) return object;
  return WithReservation(std::move(object), std::make_shared<const Reservation>(std::move(memory)));
}

}  // namespace vicinal

#endif  // VICINAL_ENGINE_MEMORY_MEMORY_BUDGET_H_
