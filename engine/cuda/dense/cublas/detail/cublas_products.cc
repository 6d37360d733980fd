// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/dense/cublas/detail/cublas_products.h"

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal::cuda {
namespace {

bool IsLackOfMemory(const Status& status) { return status.code() == StatusCode::kResourceExhausted; }
bool IsRefusal(const Status& status) { return status.code() == StatusCode::kFailedPrecondition; }

}  // namespace

std::string CublasProducts::RefusalOf(const Status& why) {
  std::string refusal(why.message());
  if (IsLackOfMemory(why)) {
    absl::StrAppend(&refusal, "; this may pass: requests try again after ", kRetryInterval.count(),
                    " s, tuning each time");
  }
  return refusal;
}

template <class T>
const StatusOr<T>* CublasProducts::Answer<T>::Settled() const {
  return value_.has_value() && !IsLackOfMemory(value_->status()) ? &*value_ : nullptr;
}

template <class T>
const StatusOr<T>* CublasProducts::Answer<T>::At(MonotonicTime now) const {
  return value_.has_value() && now < retry_ ? &*value_ : Settled();
}

StatusOr<LoadedCublas> CublasProducts::Load() {
  MutexLock lock(&load_mutex_);
  const StatusOr<LoadedCublas>* const known = loaded_.At(clock_.Now());
  return known != nullptr ? *known : LoadNow();
}

StatusOr<LoadedCublas> CublasProducts::LoadToTune() {
  MutexLock lock(&load_mutex_);
  const StatusOr<LoadedCublas>* const known = loaded_.Settled();
  return known != nullptr ? *known : LoadNow();
}

StatusOr<LoadedCublas> CublasProducts::LoadNow() {
  StatusOr<LoadedCublas> loaded = makers_.load();
  if (!loaded.ok() && !IsLackOfMemory(loaded.status()))
    loaded = FailedPrecondition("KERNEL_REFUSED", std::string(loaded.status().message()));
  loaded_.Keep(loaded, clock_.Now());
  return loaded;
}

StatusOr<CublasProducts::Pinned> CublasProducts::PinnedFor(const Widths& widths) {
  if (std::optional<StatusOr<Pinned>> known = Known(widths)) return *std::move(known);
  VICINAL_ASSIGN_OR_RETURN(const LoadedCublas loaded, Load());
  MutexLock verifying(&verify_mutex_);
  if (std::optional<StatusOr<Pinned>> known = Known(widths)) return *std::move(known);
  StatusOr<Pinned> pinned = makers_.verify(loaded, widths);
  Remember(widths, pinned);
  return pinned;
}

std::optional<StatusOr<CublasProducts::Pinned>> CublasProducts::Known(const Widths& widths) const {
  MutexLock lock(&mutex_);
  const auto found = pinned_.find(widths);
  const StatusOr<Pinned>* const known = found != pinned_.end() ? found->second.At(clock_.Now()) : nullptr;
  return known != nullptr ? std::optional<StatusOr<Pinned>>(*known) : std::nullopt;
}

bool CublasProducts::IsSettled(const Widths& widths) const {
  MutexLock lock(&mutex_);
  const auto found = pinned_.find(widths);
  return found != pinned_.end() && found->second.Settled() != nullptr;
}

void CublasProducts::Remember(const Widths& widths, const StatusOr<Pinned>& pinned) {
  const bool kept = pinned.ok() || IsLackOfMemory(pinned.status()) || IsRefusal(pinned.status());
  if (!kept) return;
  MutexLock lock(&mutex_);
  Answer<Pinned>& answer = pinned_[widths];
  if (answer.Settled() == nullptr) answer.Keep(pinned, clock_.Now());
}

}  // namespace vicinal::cuda
