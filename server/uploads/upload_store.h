// SPDX-License-Identifier: Apache-2.0
// Open uploads, and finished ones that clients may still query. Memory is reserved from the budget as chunks arrive,
// never from declared sizes, and is released when an upload is finished, expires or is dropped. Specs and answers of
// finished uploads are bounded together: the oldest are dropped first. Independent of gRPC.
//
// If two streams send to one upload, the newer one takes over and the next message of the older one gets ABORTED. So a
// client whose connection broke can resume before the server has noticed.
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
#include "engine/base/mutex.h"
#include "engine/memory/memory_budget.h"
#include "server/uploads/upload_manifest.h"
#include "vicinal/v1/tensor.pb.h"

namespace vicinal::server {

// The received data, for the function that finishes the upload.
struct UploadContent {
  std::string_view spec;  // serialised; owned by the upload
  std::vector<ManifestTensor> tensors;
  int64_t graph_version = 0;  // as in the manifest
  // The reservation of all received bytes. A caller that takes all tensors may take it, too.
  Reservation memory;
  std::vector<std::string> bytes;  // of each tensor
  bool taken = false;              // some tensor is gone: the upload cannot be finished again

  // Moves the tensor out; nullopt if the manifest does not have it. The upload can then not be finished again.
  std::optional<HostTensor> Take(std::string_view name);
  // A view of the tensor, valid as long as the content; nullopt as above.
  std::optional<TensorView> Look(std::string_view name) const;
};

// Thread-safe.
class UploadStore {
 public:
  struct Options {
    int64_t max_chunk_bytes = 4 << 20;
    int64_t max_open_uploads = 16;
    std::chrono::milliseconds ttl = std::chrono::minutes(10);
    MemoryBudget* budget = nullptr;  // required; must outlive the store
    const Clock* clock = nullptr;    // null: the real one
  };
  explicit UploadStore(const Options& options);
  ~UploadStore();

  // A stream's handle of an upload.
  class Upload;
  struct Hold {
    std::shared_ptr<Upload> upload;
    int64_t lease = 0;
  };

  // Begins the upload, or continues the one of that id if it is the same (kind and spec). A new upload drops those of
  // the same resource that were refused, because their client does not resume them. `admit` is called for new uploads
  // only. Whether all bytes fit is checked, but none are reserved yet. INVALID_ARGUMENT: the id belongs to
  // another upload. FAILED_PRECONDITION: it can never fit the budget. RESOURCE_EXHAUSTED: it does not fit now, or too
  // many uploads are open.
  StatusOr<Hold> Begin(UploadManifest manifest, const std::function<Status()>& admit);
  // Continues an upload of that kind; NOT_FOUND.
  StatusOr<Hold> Resume(UploadKind kind, const std::string& upload_id);
  bool Knows(const std::string& upload_id);

  // Accepts a chunk and reserves its memory; returns the number of new bytes. INVALID_ARGUMENT: unknown tensor, or over
  // max_chunk_bytes. ABORTED: damaged, out of place or too long (metadata `tensor` and `offset`), or another stream has
  // taken over. NOT_FOUND: expired. FAILED_PRECONDITION, RESOURCE_EXHAUSTED: as Begin.
  StatusOr<int64_t> Append(const Hold& hold, const v1::UploadChunk& chunk);

  // Calls `make` with the content, once even if several streams finish, and keeps its answer (or its error) until the
  // upload expires. Transient errors (UNAVAILABLE, RESOURCE_EXHAUSTED, CANCELLED, DEADLINE_EXCEEDED, and a `make` that
  // runs out of memory) are not kept: the upload stays open if `make` took nothing out of the content, and is dropped
  // otherwise. INVALID_ARGUMENT: tensors are not complete. `goes_on`: whether what was made is still being prepared or
  // written; the time to expire begins when it ends. Called under the store's lock, so it must not call the store.
  using Make = std::function<StatusOr<std::string>(UploadContent& content)>;
  using GoesOn = std::function<bool()>;
  StatusOr<std::string> Finish(const Hold& hold, const WorkLimits& limits, const Make& make, GoesOn goes_on = {});

  // Reports the end of a stream. Drops an upload without any bytes that no newer stream continues, because it would
  // count as open.
  void Leave(const Hold& hold);

  StatusOr<v1::Upload> Get(const std::string& upload_id);
  v1::Upload Describe(const Hold& hold) const;

  // Drops expired uploads; all other calls do so, too.
  void Expire();

  int64_t open_uploads() const;

 private:
  std::shared_ptr<Upload> FindLocked(const std::string& upload_id) const VICINAL_REQUIRES(mutex_);
  void ExpireLocked() VICINAL_REQUIRES(mutex_);
  void DropBegunAnewLocked(const UploadManifest& manifest) VICINAL_REQUIRES(mutex_);
  void DropFinishedLocked() VICINAL_REQUIRES(mutex_);
  int64_t OpenLocked() const VICINAL_REQUIRES(mutex_);
  void Forget(const std::string& upload_id);
  StatusOr<std::string> Conclude(Upload& upload, StatusOr<std::string> answer, GoesOn goes_on);

  const Options options_;
  const Clock& clock_;
  mutable Mutex mutex_;  // acquired before an upload's own
  std::map<std::string, std::shared_ptr<Upload>> uploads_ VICINAL_GUARDED_BY(mutex_);
};

// DEADLINE_EXCEEDED: no complete message arrived on the upload's stream for `ttl`.
Status UploadSilent(std::chrono::milliseconds ttl);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_UPLOADS_UPLOAD_STORE_H_
