// SPDX-License-Identifier: Apache-2.0
// What becomes of a version that could not be written. It serves from memory. Where the cause can pass (no space, a
// read-only or missing directory) it is written again from the start, into new files, until that succeeds or nobody
// wants it any more. Where the disk itself reported an error it stays in memory: nobody knows what the disk kept.
#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/budget_error.h"
#include "engine/base/error.h"
#include "engine/durable/durable_store.h"
#include "engine/durable/failures.h"
#include "engine/durable/version_ids.h"

namespace vicinal::durable {

using state::VersionId;

void DurableStore::Count(const Status& error) const { parts_.stats->StateFailure(FailureKind(error)); }

bool DurableStore::IsPublished(const VersionId& id) const {
  MutexLock lock(&mutex_);
  return published_.contains(id);
}

Status DurableStore::FailureOf(const VersionId& id) const {
  MutexLock lock(&mutex_);
  const auto failed = failures_.find(id);
  return failed == failures_.end() ? OkStatus() : failed->second.why;
}

Status DurableStore::DiscardFailed(const VersionId& id) {
  const Status failure = FailureOf(id);
  if (failure.ok()) return OkStatus();
  const Status discarded = parts_.directory->Discard(id);
  if (discarded.ok()) return OkStatus();
  // A file that cannot be deleted yet says less than the reason why the version failed; a failing disk says more.
  const std::string_view kind = FailureKind(discarded);
  return kind == "sync_failed" || kind == "io_error" ? discarded : failure;
}

void DurableStore::Finish(const VersionId& id, const Status& written) {
  if (written.code() == StatusCode::kCancelled) return;
  Status failure = written;
  if (written.code() == StatusCode::kNotFound) {
    const Status reachable = parts_.directory->CheckReachable();
    if (!reachable.ok()) failure = reachable;
  }
  std::string_view before;
  if (failure.ok()) NotePublished(id);
  {
    MutexLock lock(&mutex_);
    std::erase_if(failures_, [&](const auto& failed) { return Replaces(id, failed.first); });
    const auto failed = failures_.find(id);
    if (failed != failures_.end()) before = FailureKind(failed->second.why);
    if (failure.ok()) {
      failures_.erase(id);
      last_write_ = parts_.clock->WallNow();
      retry_wait_ = retry_wait_.zero();
    } else {
      failures_[id] = {failure, writing_bytes_};
    }
  }
  if (failure.ok()) {
    if (before.empty()) return;
    parts_.logger->Log(LogLevel::kInfo, "version durable after all", {{"version", state::Describe(id)}});
    return;
  }
  Count(failure);
  if (before == FailureKind(failure)) return;  // logged already
  parts_.logger->Log(LogLevel::kError, "version not durable",
                     {{"version", state::Describe(id)},
                      {"error", std::string(failure.message())},
                      {"next", CanPass(failure) ? "tried again until it can be written"
                                                : "in memory only until it is uploaded again"}});
}

void DurableStore::KeepIfItCanPass(Job job) {
  MutexLock lock(&mutex_);
  const auto failed = failures_.find(job.id);
  if (failed == failures_.end() || !CanPass(failed->second.why)) return;
  if (waiting_.empty()) {
    constexpr int kSlowest = 12;  // times the first period
    retry_wait_ = std::clamp(2 * retry_wait_, parts_.retry_period, kSlowest * parts_.retry_period);
    retry_at_ = parts_.retry_period.count() > 0 ? std::chrono::steady_clock::now() + retry_wait_ : MonotonicTime::max();
  }
  waiting_.push_back(std::move(job));
}

void DurableStore::RetryAll() {
  for (Job& job : waiting_) jobs_.push_back(std::move(job));
  waiting_.clear();
}

void DurableStore::Retry() {
  MutexLock lock(&mutex_);
  RetryAll();
  changed_.NotifyAll();
}

int64_t DurableStore::QueuedBytes() const {
  int64_t bytes = writing_.has_value() && !failures_.contains(*writing_) ? writing_bytes_ : 0;
  for (const Job& job : jobs_) bytes += failures_.contains(job.id) ? 0 : job.bytes;
  return bytes;
}

Status DurableStore::CheckSpace(int64_t bytes) const {
  // For manifests, tuning documents, reservations of versions and what the file system itself needs.
  constexpr int64_t kSpare = int64_t{16} << 20;
  int64_t waiting = 0, queued = 0, fewest_bytes = std::numeric_limits<int64_t>::max();
  std::string first;
  {
    MutexLock lock(&mutex_);
    queued = QueuedBytes();
    for (const auto& [id, failure] : failures_) {
      if (!IsDiskFull(failure.why)) continue;
      if (waiting++ == 0) first = state::Describe(id);
      fewest_bytes = std::min(fewest_bytes, failure.bytes);
    }
  }
  if (waiting == 0) return OkStatus();
  const int64_t free = parts_.directory->FreeBytes().value_or(0);
  // Where what failed would fit, something else is used up, such as a quota, and nobody knows how much of it is left.
  if (fewest_bytes > free - kSpare && bytes <= free - kSpare - queued) return OkStatus();
  ErrorDetail detail;
  detail.reason = "STATE_DISK_FULL";
  detail.metadata = {{"waitingVersions", absl::StrCat(waiting)}, {"freeBytes", absl::StrCat(free)}};
  return MakeError(
      StatusCode::kResourceExhausted,
      absl::StrCat("the state directory is full: ", waiting, " versions wait to be written, ", first, " first, and ",
                   SizeText(free), " are free; free space on the server, or delete what waits"),
      detail);
}

DurableStore::WriteState DurableStore::write_state() const {
  MutexLock lock(&mutex_);
  return {static_cast<int64_t>(failures_.size()), last_write_};
}

}  // namespace vicinal::durable
