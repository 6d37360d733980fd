// SPDX-License-Identifier: Apache-2.0
#include "engine/store/version_source.h"

#include <utility>

#include "engine/base/check.h"

namespace vicinal {

VersionClaim::~VersionClaim() {
  if (source_ != nullptr) source_->GiveBack();
}

int64_t VersionClaim::Take() {
  VICINAL_CHECK(source_ != nullptr);
  return std::exchange(source_, nullptr)->Take();
}

VersionSource::VersionSource()
    : VersionSource([next = int64_t{1}](int64_t count) mutable { return std::exchange(next, next + count); }) {}

VersionSource::VersionSource(ReserveBlock reserve) : reserve_(std::move(reserve)) {}

bool VersionSource::ClaimFromBlock() {
  MutexLock lock(&mutex_);
  if (claimed_ >= end_ - next_) return false;
  ++claimed_;
  return true;
}

StatusOr<VersionClaim> VersionSource::Claim() {
  if (ClaimFromBlock()) return VersionClaim(this);
  MutexLock reserve_lock(&reserve_mutex_);
  if (ClaimFromBlock()) return VersionClaim(this);  // another thread reserved a block meanwhile
  VICINAL_ASSIGN_OR_RETURN(const int64_t first, reserve_(kBlock));
  MutexLock lock(&mutex_);
  VICINAL_CHECK(first >= end_);
  // What is claimed of the former block must stay within reach: either the blocks join, or the new one has room for it.
  if (first != end_) {
    VICINAL_CHECK(claimed_ < kBlock);
    next_ = first;
  }
  end_ = first + kBlock;
  ++claimed_;
  return VersionClaim(this);
}

int64_t VersionSource::Take() {
  MutexLock lock(&mutex_);
  VICINAL_CHECK(claimed_ > 0 && next_ < end_);
  --claimed_;
  return next_++;
}

void VersionSource::GiveBack() {
  MutexLock lock(&mutex_);
  --claimed_;
}

}  // namespace vicinal
