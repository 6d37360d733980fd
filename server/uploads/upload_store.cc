// SPDX-License-Identifier: Apache-2.0
#include "server/uploads/upload_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/out_of_memory.h"
#include "server/uploads/upload.h"

namespace vicinal::server {
namespace {

// Finished uploads are kept so that a client can retrieve a lost answer. Beyond this number, or this number of bytes of
// specs and answers, the oldest are dropped: a model's spec may have megabytes, and the budget does not count them.
constexpr size_t kMaxKept = 4096;
constexpr int64_t kMaxKeptBytes = int64_t{32} << 20;

constexpr std::chrono::milliseconds kRetryAfter{5000};

// True if the same finish may succeed later. ABORTED may not: a version that differs will remain different.
bool MayGoAway(StatusCode code) {
  switch (code) {
    case StatusCode::kUnavailable:
    case StatusCode::kResourceExhausted:
    case StatusCode::kCancelled:
    case StatusCode::kDeadlineExceeded:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::optional<HostTensor> UploadContent::Take(std::string_view name) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].name != name) continue;
    taken = true;
    return HostTensor{tensors[i].dtype, tensors[i].shape, std::move(bytes[i])};
  }
  return std::nullopt;
}

std::optional<TensorView> UploadContent::Look(std::string_view name) const {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].name == name) return TensorView{tensors[i].dtype, tensors[i].shape, bytes[i]};
  }
  return std::nullopt;
}

UploadStore::UploadStore(const Options& options)
    : options_(options), clock_(options_.clock != nullptr ? *options_.clock : Clock::Real()) {
  VICINAL_CHECK(options_.budget != nullptr);
}
UploadStore::~UploadStore() = default;

StatusOr<UploadStore::Hold> UploadStore::Begin(UploadManifest manifest, const std::function<Status()>& admit) {
  const MonotonicTime now = clock_.Now();
  MemoryBudget& budget = *options_.budget;
  const auto go_on = [&]() VICINAL_REQUIRES(mutex_) -> StatusOr<Hold> {
    std::shared_ptr<Upload> upload = FindLocked(manifest.upload_id);
    if (upload == nullptr) return Hold{};
    if (!upload->Is(manifest)) {
      return InvalidArgument("UPLOAD_ID_TAKEN", "spec.upload_id",
                             "this upload id belongs to an upload with another spec; choose a new one");
    }
    const int64_t lease = upload->Attach(now);
    return Hold{std::move(upload), lease};
  };
  {
    MutexLock lock(&mutex_);
    ExpireLocked();
    VICINAL_ASSIGN_OR_RETURN(Hold hold, go_on());
    if (hold.upload != nullptr) return hold;
    DropBegunAnewLocked(manifest);
  }
  VICINAL_RETURN_IF_ERROR(admit());
  const std::string what =
      absl::StrCat("the upload of ", ResourceTypeOf(manifest.kind), " '", manifest.resource_name, "'");
  VICINAL_RETURN_IF_ERROR(budget.Check(manifest.size_bytes(), what, {.replace = manifest.replace}));
  VICINAL_ASSIGN_OR_RETURN(Reservation memory, budget.Reserve(Account::kUploads, 0, what));
  MutexLock lock(&mutex_);
  VICINAL_ASSIGN_OR_RETURN(Hold hold, go_on());  // another stream may have been faster
  if (hold.upload != nullptr) return hold;
  if (OpenLocked() >= options_.max_open_uploads) {
    return ResourceExhausted("TOO_MANY_UPLOADS",
                             absl::StrCat("--max_open_uploads=", options_.max_open_uploads,
                                          " uploads are already open; finish one, or wait until one expires"),
                             kRetryAfter);
  }
  DropFinishedLocked();
  hold.upload = std::make_shared<Upload>(std::move(manifest), now, std::move(memory));
  hold.lease = hold.upload->Attach(now);
  uploads_[hold.upload->id()] = hold.upload;
  return hold;
}

StatusOr<UploadStore::Hold> UploadStore::Resume(UploadKind kind, const std::string& upload_id) {
  MutexLock lock(&mutex_);
  ExpireLocked();
  std::shared_ptr<Upload> upload = FindLocked(upload_id);
  if (upload == nullptr || upload->kind() != kind) {
    return NotFound("upload", upload_id, "it was never started, or has expired; start it with its spec");
  }
  const int64_t lease = upload->Attach(clock_.Now());
  return Hold{std::move(upload), lease};
}

bool UploadStore::Knows(const std::string& upload_id) {
  MutexLock lock(&mutex_);
  ExpireLocked();
  return FindLocked(upload_id) != nullptr;
}

StatusOr<int64_t> UploadStore::Append(const Hold& hold, const v1::UploadChunk& chunk) {
  return hold.upload->Append(hold.lease, chunk, options_.max_chunk_bytes, clock_.Now());
}

StatusOr<std::string> UploadStore::Finish(const Hold& hold, const WorkLimits& limits, const Make& make,
                                          GoesOn goes_on) {
  StatusOr<std::string> answer = std::string();
  if (!hold.upload->BeginFinish(hold.lease, limits, clock_, &answer)) return answer;
  return Conclude(*hold.upload, OrOutOfMemory([&] { return make(hold.upload->content()); }), std::move(goes_on));
}

StatusOr<std::string> UploadStore::Conclude(Upload& upload, StatusOr<std::string> answer, GoesOn goes_on) {
  if (answer.ok() || !MayGoAway(answer.status().code())) {
    // First the state, then the answer's copy, which needs memory.
    upload.EndFinish(std::move(answer), std::move(goes_on), clock_.Now());
    return upload.answer();
  }
  if (upload.GiveUpFinish(clock_.Now()) == Upload::State::kDropped) Forget(upload.id());
  return answer;
}

void UploadStore::Leave(const Hold& hold) {
  // Under the store's lock: a stream that takes over the upload either comes before, or finds it dropped.
  MutexLock lock(&mutex_);
  if (!hold.upload->DropIfEmpty(hold.lease)) return;
  const auto found = uploads_.find(hold.upload->id());
  if (found != uploads_.end() && found->second == hold.upload) uploads_.erase(found);
}

StatusOr<v1::Upload> UploadStore::Get(const std::string& upload_id) {
  std::shared_ptr<Upload> upload;
  {
    MutexLock lock(&mutex_);
    ExpireLocked();
    upload = FindLocked(upload_id);
  }
  if (upload == nullptr) return NotFound("upload", upload_id, "it was never started, or has expired");
  return upload->Describe(clock_.WallNow(), clock_.Now(), options_.ttl);
}

v1::Upload UploadStore::Describe(const Hold& hold) const {
  return hold.upload->Describe(clock_.WallNow(), clock_.Now(), options_.ttl);
}

void UploadStore::Expire() {
  MutexLock lock(&mutex_);
  ExpireLocked();
}

int64_t UploadStore::open_uploads() const {
  MutexLock lock(&mutex_);
  return OpenLocked();
}

std::shared_ptr<UploadStore::Upload> UploadStore::FindLocked(const std::string& upload_id) const {
  const auto found = uploads_.find(upload_id);
  return found == uploads_.end() ? nullptr : found->second;
}

void UploadStore::ExpireLocked() {
  const MonotonicTime now = clock_.Now();
  for (auto entry = uploads_.begin(); entry != uploads_.end();) {
    Upload& upload = *entry->second;
    const bool in_use = upload.state() == Upload::State::kFinishing || now - upload.last_used() < options_.ttl;
    if (in_use || upload.GoesOn(now)) {
      ++entry;
      continue;
    }
    upload.Drop();
    entry = uploads_.erase(entry);
  }
}

void UploadStore::DropBegunAnewLocked(const UploadManifest& manifest) {
  std::erase_if(uploads_, [&manifest](const auto& entry) { return entry.second->DropIfBegunAnew(manifest); });
}

void UploadStore::DropFinishedLocked() {
  std::vector<std::shared_ptr<Upload>> finished;
  int64_t bytes = 0;
  for (const auto& [id, upload] : uploads_) {
    if (upload->state() != Upload::State::kFinished) continue;
    finished.push_back(upload);
    bytes += upload->kept_bytes();
  }
  if (uploads_.size() < kMaxKept && bytes <= kMaxKeptBytes) return;
  std::stable_sort(finished.begin(), finished.end(),
                   [](const auto& a, const auto& b) { return a->last_used() < b->last_used(); });
  for (const std::shared_ptr<Upload>& upload : finished) {
    if (uploads_.size() < kMaxKept && bytes <= kMaxKeptBytes) return;
    if (upload->GoesOn(clock_.Now())) continue;
    bytes -= upload->kept_bytes();
    uploads_.erase(upload->id());
  }
}

int64_t UploadStore::OpenLocked() const {
  int64_t open = 0;
  for (const auto& [id, upload] : uploads_) open += upload->state() != Upload::State::kFinished ? 1 : 0;
  return open;
}

void UploadStore::Forget(const std::string& upload_id) {
  MutexLock lock(&mutex_);
  const auto found = uploads_.find(upload_id);
  if (found != uploads_.end() && found->second->state() == Upload::State::kDropped) uploads_.erase(found);
}

Status UploadSilent(std::chrono::milliseconds ttl) {
  return DeadlineExceeded("UPLOAD_SILENT",
                          absl::StrCat("upload timed out: no complete message on this stream for ", ttl.count() / 1000,
                                       " s (--upload_ttl); start again, with smaller chunks on slow connections"));
}

}  // namespace vicinal::server
