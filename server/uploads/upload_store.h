// SPDX-License-Identifier: Apache-2.0
// Uploads under way and finished ones that may still be asked about. Memory grows with what arrives, never with what is
// claimed, and is given back when an upload is finished, expires or is dropped. What stays of a finished one, its spec
// and its answer, is bounded for all of them together: the oldest are forgotten first. Free of gRPC.
//
// Two streams on one upload: the newer takes over, and the older one's next word is refused with ABORTED. A client
// whose connection broke without the server noticing can so go on at once.
#ifndef VICINAL_SERVER_UPLOADS_UPLOAD_STORE_H_
#define VICINAL_SERVER_UPLOADS_UPLOAD_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/api/engine.h"
#include "engine/base/budget_error.h"
#include "server/uploads/upload_manifest.h"
#include "vicinal/v1/tensor.pb.h"

namespace vicinal::server {

// What has arrived, for whoever finishes the upload.
struct UploadContent {
  std::string_view spec;  // serialised; the upload's own
  std::vector<ManifestTensor> tensors;
  std::vector<std::string> bytes;  // of each tensor
  bool taken = false;              // set by Take

  // Moves the tensor out; nullopt when it was not announced. From then on the upload cannot be finished again.
  std::optional<HostTensor> Take(std::string_view name);
  // Looks at it; lives as long as the content.
  std::optional<TensorView> Look(std::string_view name) const;
};

// Thread-safe.
class UploadStore {
 public:
  struct Options {
    int64_t max_chunk_bytes = 4 << 20;
    int64_t max_open_uploads = 16;
    std::chrono::milliseconds ttl = std::chrono::minutes(10);
    int64_t budget_bytes = 0;               // of uploads and what `held_bytes` counts together; 0: no bound
    std::function<HeldBytes()> held_bytes;  // what others hold of the same budget; may be empty
    // Frees, as far as it can, what others keep only to use it again, so that so many bytes fit; may be empty.
    std::function<void(int64_t bytes)> give_way;
    const Clock* clock = nullptr;  // null: the real one
  };
  explicit UploadStore(Options options);
  ~UploadStore();

  // A stream's hold on an upload.
  class Upload;
  struct Hold {
    std::shared_ptr<Upload> upload;
    int64_t lease = 0;
  };

  // Begins the upload, or goes on with the one of that id if it is the same (kind and spec). `admit` is asked for new
  // ones only. INVALID_ARGUMENT: the id is another upload's. FAILED_PRECONDITION: could never fit the budget.
  // RESOURCE_EXHAUSTED: does not fit now, or too many are open.
  StatusOr<Hold> Begin(UploadManifest manifest, const std::function<Status()>& admit);
  // The kind and spec of an upload that is there; NOT_FOUND.
  StatusOr<Hold> Resume(UploadKind kind, const std::string& upload_id);
  bool Knows(const std::string& upload_id);

  // Takes a chunk; the number of bytes that were new. INVALID_ARGUMENT: unknown tensor, over max_chunk_bytes. ABORTED:
  // damaged, out of place or too long (metadata `tensor` and `offset`), or taken over. NOT_FOUND: expired.
  // RESOURCE_EXHAUSTED: does not fit now.
  StatusOr<int64_t> Append(const Hold& hold, const v1::UploadChunk& chunk);

  // Finishes: calls `make` with the content, once however many streams say finish, and keeps its answer (or its error)
  // until the upload expires. Errors that may go away (UNAVAILABLE, RESOURCE_EXHAUSTED, CANCELLED,
  // DEADLINE_EXCEEDED) are not kept: the upload stays open if `make` took nothing out of the content, and is forgotten
  // otherwise; a `make` that runs out of memory counts among them. INVALID_ARGUMENT: tensors are not complete.
  using Make = std::function<StatusOr<std::string>(UploadContent& content)>;
  StatusOr<std::string> Finish(const Hold& hold, const WorkLimits& limits, const Make& make);

  // The stream has ended, however. An upload of which nothing has arrived, and that no newer stream goes on with, is
  // forgotten: it would hold one of the open uploads for nothing.
  void Leave(const Hold& hold);

  StatusOr<v1::Upload> Get(const std::string& upload_id);
  v1::Upload Describe(const Hold& hold) const;

  // Forgets what is over its time; every call does so too.
  void Expire();

  int64_t open_uploads() const;
  int64_t held_bytes() const { return held_bytes_.load(); }

 private:
  Status CheckRoom(std::string_view what, int64_t bytes, bool replace) const;
  std::shared_ptr<Upload> FindLocked(const std::string& upload_id) const VICINAL_REQUIRES(mutex_);
  void ExpireLocked() VICINAL_REQUIRES(mutex_);
  void DropFinishedLocked() VICINAL_REQUIRES(mutex_);
  int64_t OpenLocked() const VICINAL_REQUIRES(mutex_);
  void Forget(const std::string& upload_id);
  StatusOr<std::string> Conclude(Upload& upload, StatusOr<std::string> answer);

  const Options options_;
  const Clock& clock_;
  std::atomic<int64_t> held_bytes_{0};
  mutable Mutex mutex_;  // taken before an upload's own
  std::map<std::string, std::shared_ptr<Upload>> uploads_ VICINAL_GUARDED_BY(mutex_);
};

// DEADLINE_EXCEEDED: the end of a stream on which no message has come whole for the time that an upload is kept.
Status UploadSilent(std::chrono::milliseconds ttl);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_UPLOADS_UPLOAD_STORE_H_
