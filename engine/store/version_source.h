// SPDX-License-Identifier: Apache-2.0
// Version numbers of one kind of resource. They rise from one version to the next, and none is ever handed out twice
// within an incarnation, so that a version names one thing for good.
//
// Numbers come in blocks, because with a state directory a block has to be durable before any of it is used. A caller
// therefore first claims a number, which may write to disk, and takes it later under its own lock, which cannot fail.
#ifndef VICINAL_ENGINE_STORE_VERSION_SOURCE_H_
#define VICINAL_ENGINE_STORE_VERSION_SOURCE_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "engine/base/mutex.h"
#include "engine/base/status.h"

namespace vicinal {

class VersionSource;

// The right to take one number. Gives it back when it is destroyed unused. The source must outlive it.
class VersionClaim {
 public:
  VersionClaim() = default;
  VersionClaim(VersionClaim&& other) noexcept : source_(std::exchange(other.source_, nullptr)) {}
  VersionClaim& operator=(VersionClaim&& other) noexcept {
    std::swap(source_, other.source_);
    return *this;
  }
  ~VersionClaim();

  // The next number. Never blocks on anything slow. REQUIRES: it comes from Claim() and was not taken yet.
  int64_t Take();

 private:
  friend class VersionSource;
  explicit VersionClaim(VersionSource* source) : source_(source) {}

  VersionSource* source_ = nullptr;
};

// Thread-safe.
class VersionSource {
 public:
  // Reserves `count` numbers that were never reserved before, and returns the first one; called by one thread at a time
  // and never under a lock that Take() needs.
  using ReserveBlock = std::function<StatusOr<int64_t>(int64_t count)>;
  static constexpr int64_t kBlock = 1024;

  // Counts from 1, in memory.
  VersionSource();
  explicit VersionSource(ReserveBlock reserve);
  VersionSource(const VersionSource&) = delete;
  VersionSource& operator=(const VersionSource&) = delete;

  // Errors of ReserveBlock; then nothing is claimed.
  StatusOr<VersionClaim> Claim();

 private:
  friend class VersionClaim;

  bool ClaimFromBlock();
  int64_t Take();
  void GiveBack();

  const ReserveBlock reserve_;
  Mutex reserve_mutex_;  // held while a block is reserved; acquired before mutex_
  Mutex mutex_;
  int64_t next_ VICINAL_GUARDED_BY(mutex_) = 0;
  int64_t end_ VICINAL_GUARDED_BY(mutex_) = 0;      // numbers [next_, end_) are reserved
  int64_t claimed_ VICINAL_GUARDED_BY(mutex_) = 0;  // at most end_ - next_
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_STORE_VERSION_SOURCE_H_
