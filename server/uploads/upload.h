// SPDX-License-Identifier: Apache-2.0
// One upload: its growing tensors, and its state OPEN -> FINISHING -> FINISHED (or DROPPED). Internal to uploads/.
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

  // `memory`: a reservation of 0 bytes, which grows with the received bytes.
  Upload(UploadManifest manifest, MonotonicTime now, Reservation memory);

  const std::string& id() const { return id_; }
  UploadKind kind() const { return kind_; }
  bool Is(const UploadManifest& manifest) const { return kind_ == manifest.kind && spec_ == manifest.spec; }
  // Drops it if it was refused, nobody has resumed it, and `manifest` is of the same resource. Returns whether it did.
  bool DropIfBegunAnew(const UploadManifest& manifest);

  // A stream takes over the upload. Returns its lease.
  int64_t Attach(MonotonicTime now);

  // Like UploadStore::Append.
  StatusOr<int64_t> Append(int64_t lease, const v1::UploadChunk& chunk, int64_t max_chunk_bytes, MonotonicTime now);

  // True: the caller must run `make` on content(), then call EndFinish or GiveUpFinish. False: `*answer` is the answer.
  bool BeginFinish(int64_t lease, const WorkLimits& limits, const Clock& clock, StatusOr<std::string>* answer);
  // Stores the answer and frees the content. Neither EndFinish nor GiveUpFinish allocates.
  void EndFinish(StatusOr<std::string> answer, UploadStore::GoesOn goes_on, MonotonicTime now);
  // Whether what a finished upload made is still being prepared or written; if so, it was last used `now`.
  bool GoesOn(MonotonicTime now);
  // Opens the upload again, or drops it if content was taken. Returns the new state.
  State GiveUpFinish(MonotonicTime now);
  // REQUIRES: after EndFinish.
  StatusOr<std::string> answer() const;
  // Bytes that a finished upload keeps: its spec and its answer.
  int64_t kept_bytes() const;
  // REQUIRES: between BeginFinish and its end.
  UploadContent& content() VICINAL_THREAD_ATTRIBUTE(no_thread_safety_analysis) { return content_; }

  void Drop();
  // Drops it if it is open, has no data, and `lease` is the newest. Returns whether it did.
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
  const bool of_edges_;  // nodes and edges of a graph may have sets of the same name

  mutable Mutex mutex_;
  CondVar finished_;
  State state_ VICINAL_GUARDED_BY(mutex_) = State::kOpen;
  int64_t lease_ VICINAL_GUARDED_BY(mutex_) = 0;
  bool refused_ VICINAL_GUARDED_BY(mutex_) = false;  // a chunk or finish, for now, and its stream ended with that
  MonotonicTime last_used_ VICINAL_GUARDED_BY(mutex_);
  std::vector<int64_t> received_ VICINAL_GUARDED_BY(mutex_);  // of each tensor; outlives the content
  StatusOr<std::string> answer_ VICINAL_GUARDED_BY(mutex_) = std::string();
  UploadStore::GoesOn goes_on_ VICINAL_GUARDED_BY(mutex_);  // once finished; may be empty
  UploadContent content_ VICINAL_GUARDED_BY(mutex_);        // while finishing, used by the finishing thread alone
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_UPLOADS_UPLOAD_H_
