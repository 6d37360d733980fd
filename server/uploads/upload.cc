// SPDX-License-Identifier: Apache-2.0
#include "server/uploads/upload.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "proto/wire/crc32c.h"
#include "server/convert_resources.h"

namespace vicinal::server {
namespace {

// ABORTED: the chunk is not the next one; the client resends from `offset`.
Status SendAgain(const char* reason, const std::string& message, const std::string& tensor, int64_t offset) {
  ErrorDetail detail;
  detail.reason = reason;
  detail.field = "chunk";
  detail.metadata = {{"tensor", tensor}, {"offset", std::to_string(offset)}};
  return MakeError(StatusCode::kAborted,
                   absl::StrCat("chunk of '", tensor, "': ", message, "; resend from offset ", offset), detail);
}

Status Gone(const std::string& id) { return NotFound("upload", id, "it expired or was dropped; start it again"); }

// Larger sizes may be made up.
constexpr int64_t kLargestAtOnce = int64_t{16} << 30;

bool IsOfEdges(const UploadManifest& manifest) {
  return manifest.kind == UploadKind::kFeatures && manifest.Find("edge_attr") != nullptr;
}

// Makes room for `size` more bytes. Addresses for all of the tensor come with its first bytes: what arrives is never
// moved, and pages that nothing was written to are not in memory. A manifest alone allocates nothing.
void Grow(std::string* bytes, int64_t size, int64_t declared) {
  const int64_t needed = static_cast<int64_t>(bytes->size()) + size;
  const int64_t capacity = static_cast<int64_t>(bytes->capacity());
  if (needed <= capacity) return;
  const int64_t room = declared <= kLargestAtOnce ? declared : std::min(declared, std::max(needed, 2 * capacity));
  bytes->reserve(static_cast<size_t>(room));
}

}  // namespace

UploadStore::Upload::Upload(UploadManifest manifest, MonotonicTime now, Reservation memory)
    : id_(manifest.upload_id),
      kind_(manifest.kind),
      resource_name_(manifest.resource_name),
      spec_(std::move(manifest.spec)),
      of_edges_(IsOfEdges(manifest)),
      last_used_(now),
      received_(manifest.tensors.size(), 0) {
  content_.spec = spec_;
  content_.bytes.resize(manifest.tensors.size());
  content_.tensors = std::move(manifest.tensors);
  content_.graph_version = manifest.graph_version;
  content_.memory = std::move(memory);
}

int64_t UploadStore::Upload::Attach(MonotonicTime now) {
  MutexLock lock(&mutex_);
  last_used_ = now;
  refused_ = false;
  return ++lease_;
}

Status UploadStore::Upload::CheckLease(int64_t lease) const {
  if (state_ == State::kDropped) return Gone(id_);
  if (lease == lease_) return OkStatus();
  ErrorDetail detail;
  detail.reason = "UPLOAD_TAKEN_OVER";
  detail.resource_type = "upload";
  detail.resource_name = id_;
  return MakeError(StatusCode::kAborted, "another stream resumed this upload; call GetUpload for its progress", detail);
}

StatusOr<int64_t> UploadStore::Upload::Append(int64_t lease, const v1::UploadChunk& chunk, int64_t max_chunk_bytes,
                                              MonotonicTime now) {
  const auto size = static_cast<int64_t>(chunk.data().size());
  if (size > max_chunk_bytes) return OverLimit("max_chunk_bytes", "chunk.data", size, max_chunk_bytes);
  const bool sound = wire::Crc32c(chunk.data().data(), chunk.data().size()) == chunk.crc32c();
  MutexLock lock(&mutex_);
  VICINAL_RETURN_IF_ERROR(CheckLease(lease));
  last_used_ = now;
  size_t i = 0;
  while (i < content_.tensors.size() && content_.tensors[i].name != chunk.tensor()) ++i;
  if (i == content_.tensors.size()) {
    return InvalidArgument("BAD_UPLOAD", "chunk.tensor",
                           absl::StrCat("the tensor '", chunk.tensor(), "' was not declared in the specification"));
  }
  const ManifestTensor& tensor = content_.tensors[i];
  int64_t& received = received_[i];
  if (!sound)
    return SendAgain("CHUNK_DAMAGED", "its CRC-32C (Castagnoli; the crc32 of zlib is another checksum) differs",
                     tensor.name, received);
  // A repeated chunk, from a client that missed an answer.
  if (chunk.offset_bytes() >= 0 && chunk.offset_bytes() <= received - size) return 0;
  if (chunk.offset_bytes() != received) {
    return SendAgain("CHUNK_OUT_OF_PLACE", absl::StrCat("it begins at ", chunk.offset_bytes()), tensor.name, received);
  }
  if (size > tensor.size_bytes - received) {
    return SendAgain("CHUNK_TOO_LONG", absl::StrCat("it ends beyond the declared ", tensor.size_bytes, " bytes"),
                     tensor.name, received);
  }
  if (Status grown = content_.memory.Grow(size, "the received part of the upload"); !grown.ok()) {
    refused_ = true;
    return grown;
  }
  Grow(&content_.bytes[i], size, tensor.size_bytes);
  content_.bytes[i].append(chunk.data());
  received += size;
  refused_ = false;
  return size;
}

Status UploadStore::Upload::Incomplete() const {
  for (size_t i = 0; i < received_.size(); ++i) {
    const ManifestTensor& tensor = content_.tensors[i];
    if (received_[i] == tensor.size_bytes) continue;
    ErrorDetail detail;
    detail.reason = "UPLOAD_INCOMPLETE";
    detail.field = "finish";
    detail.metadata = {{"tensor", tensor.name}, {"offset", std::to_string(received_[i])}};
    return MakeError(StatusCode::kInvalidArgument,
                     absl::StrCat("'", tensor.name, "' has ", received_[i], " of its ", tensor.size_bytes,
                                  " bytes; send the rest before finish"),
                     detail);
  }
  return OkStatus();
}

bool UploadStore::Upload::BeginFinish(int64_t lease, const WorkLimits& limits, const Clock& clock,
                                      StatusOr<std::string>* answer) {
  MutexLock lock(&mutex_);
  // Another stream's finish may be in progress: both get the same answer.
  while (state_ == State::kFinishing) {
    if (Status waits = limits.Check(clock); !waits.ok()) {
      *answer = std::move(waits);
      return false;
    }
    // Woken at the end, or periodically to check whether the caller still waits.
    finished_.WaitUntil(&mutex_, std::chrono::steady_clock::now() + std::chrono::milliseconds(100));
  }
  if (state_ == State::kFinished) {
    *answer = answer_;
    return false;
  }
  Status status = CheckLease(lease);
  if (status.ok()) status = Incomplete();
  if (!status.ok()) {
    *answer = status;
    return false;
  }
  state_ = State::kFinishing;
  return true;
}

void UploadStore::Upload::EndFinish(StatusOr<std::string> answer, UploadStore::GoesOn goes_on, MonotonicTime now) {
  MutexLock lock(&mutex_);
  last_used_ = now;
  answer_ = std::move(answer);
  goes_on_ = std::move(goes_on);
  state_ = State::kFinished;
  FreeContent();
  finished_.NotifyAll();
}

bool UploadStore::Upload::GoesOn(MonotonicTime now) {
  MutexLock lock(&mutex_);
  if (state_ != State::kFinished || !answer_.ok() || !goes_on_ || !goes_on_()) return false;
  last_used_ = now;
  return true;
}

UploadStore::Upload::State UploadStore::Upload::GiveUpFinish(MonotonicTime now) {
  MutexLock lock(&mutex_);
  last_used_ = now;
  refused_ = true;
  state_ = content_.taken ? State::kDropped : State::kOpen;
  if (state_ == State::kDropped) FreeContent();
  finished_.NotifyAll();
  return state_;
}

StatusOr<std::string> UploadStore::Upload::answer() const {
  MutexLock lock(&mutex_);
  return answer_;
}

int64_t UploadStore::Upload::kept_bytes() const {
  MutexLock lock(&mutex_);
  return static_cast<int64_t>(spec_.size() + (answer_.ok() ? answer_->size() : answer_.status().message().size()));
}

void UploadStore::Upload::Drop() {
  MutexLock lock(&mutex_);
  if (state_ == State::kFinishing) return;  // the thread that finishes it ends it
  state_ = State::kDropped;
  FreeContent();
}

bool UploadStore::Upload::DropIfEmpty(int64_t lease) {
  MutexLock lock(&mutex_);
  const bool empty = std::all_of(received_.begin(), received_.end(), [](int64_t bytes) { return bytes == 0; });
  if (state_ != State::kOpen || lease != lease_ || !empty) return false;
  state_ = State::kDropped;
  FreeContent();
  return true;
}

void UploadStore::Upload::FreeContent() {
  for (std::string& bytes : content_.bytes) std::string().swap(bytes);
  content_.memory.Release();
}

bool UploadStore::Upload::DropIfBegunAnew(const UploadManifest& manifest) {
  MutexLock lock(&mutex_);
  const bool same =
      kind_ == manifest.kind && resource_name_ == manifest.resource_name && of_edges_ == IsOfEdges(manifest);
  if (state_ != State::kOpen || !refused_ || !same) return false;
  state_ = State::kDropped;
  FreeContent();
  return true;
}

UploadStore::Upload::State UploadStore::Upload::state() const {
  MutexLock lock(&mutex_);
  return state_;
}

MonotonicTime UploadStore::Upload::last_used() const {
  MutexLock lock(&mutex_);
  return last_used_;
}

v1::Upload UploadStore::Upload::Describe(WallTime wall_now, MonotonicTime now, std::chrono::milliseconds ttl) const {
  MutexLock lock(&mutex_);
  v1::Upload upload;
  upload.set_upload_id(id_);
  upload.set_state(state_ == State::kFinished ? v1::Upload::STATE_FINISHED : v1::Upload::STATE_UPLOADING);
  upload.set_resource_type(ResourceTypeOf(kind_));
  upload.set_resource_name(resource_name_);
  for (size_t i = 0; i < received_.size(); ++i) {
    v1::TensorProgress* progress = upload.add_tensors();
    progress->set_name(content_.tensors[i].name);
    progress->set_received_bytes(received_[i]);
    progress->set_size_bytes(content_.tensors[i].size_bytes);
  }
  const auto left = std::chrono::duration_cast<WallTime::duration>(last_used_ + ttl - now);
  *upload.mutable_expire_time() = ToProto(wall_now + left);
  return upload;
}

}  // namespace vicinal::server
