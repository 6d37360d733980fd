// SPDX-License-Identifier: Apache-2.0
// One upload: its tensors as they grow, and its way OPEN -> FINISHING -> FINISHED (or DROPPED). Internal to uploads/.
#ifndef VICINAL_SERVER_UPLOADS_UPLOAD_H_
#define VICINAL_SERVER_UPLOADS_UPLOAD_H_

#include <string>
#include <vector>

#include "engine/base/mutex.h"
#include "server/uploads/upload_store.h"

namespace vicinal::server {

// Thread-safe.
class UploadStore::Upload {
 public:
  enum class State { kOpen, kFinishing, kFinished, kDropped };

  Upload(UploadManifest manifest, MonotonicTime now, std::atomic<int64_t>* held_bytes);
  ~Upload();

  const std::string& id() const { return id_; }
  UploadKind kind() const { return kind_; }
  bool Is(const UploadManifest& manifest) const { return kind_ == manifest.kind && spec_ == manifest.spec; }

  // A stream takes the upload; its lease.
  int64_t Attach(MonotonicTime now);

  // As UploadStore::Append. `fits` is asked for the bytes that are new.
  StatusOr<int64_t> Append(int64_t lease, const v1::UploadChunk& chunk, int64_t max_chunk_bytes, MonotonicTime now,
                           const std::function<Status(int64_t)>& fits);

  // True: the caller must run `make` on content() and call EndFinish or GiveUpFinish. False: `*answer` is the answer.
  bool BeginFinish(int64_t lease, const WorkLimits& limits, const Clock& clock, StatusOr<std::string>* answer);
  // The answer is kept and the content freed. Neither of the two ends needs memory.
  void EndFinish(StatusOr<std::string> answer, MonotonicTime now);
  // The upload is open again, or dropped when content was taken. Returns the state it came to.
  State GiveUpFinish(MonotonicTime now);
  // REQUIRES: after EndFinish.
  StatusOr<std::string> answer() const;
  // Bytes that stay when it is finished: its spec and its answer.
  int64_t kept_bytes() const;
  // REQUIRES: between BeginFinish and its end.
  UploadContent& content() { return content_; }

  void Drop();
  // Drops it when it is open, nothing has arrived, and `lease` is the newest; true when it is dropped.
  bool DropIfEmpty(int64_t lease);
  State state() const;
  MonotonicTime last_used() const;
  v1::Upload Describe(WallTime wall_now, MonotonicTime now, std::chrono::milliseconds ttl) const;

 private:
  Status CheckLease(int64_t lease) const VICINAL_REQUIRES(mutex_);
  void FreeContent() VICINAL_REQUIRES(mutex_);
  Status Incomplete() const VICINAL_REQUIRES(mutex_);

  const std::string id_;
  const UploadKind kind_;
  const std::string resource_name_;
  const std::string spec_;
  std::atomic<int64_t>* const held_bytes_;  // the store's account

  mutable Mutex mutex_;
  CondVar finished_;
  State state_ VICINAL_GUARDED_BY(mutex_) = State::kOpen;
  int64_t lease_ VICINAL_GUARDED_BY(mutex_) = 0;
  MonotonicTime last_used_ VICINAL_GUARDED_BY(mutex_);
  int64_t charged_ VICINAL_GUARDED_BY(mutex_) = 0;
  std::vector<int64_t> received_ VICINAL_GUARDED_BY(mutex_);  // of each tensor; outlives the content
  StatusOr<std::string> answer_ VICINAL_GUARDED_BY(mutex_) = std::string();
  UploadContent content_;  // guarded by mutex_ while open; the finisher's while finishing
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_UPLOADS_UPLOAD_H_
