// SPDX-License-Identifier: Apache-2.0
// The chunked upload of graphs, feature sets and models: sends the tensors and, if the stream breaks, asks the server
// for the received offsets and resumes there. Templates over the three request types, which have the same four parts.
// Internal to the client library.
#ifndef VICINAL_CLIENT_CPP_UPLOAD_H_
#define VICINAL_CLIENT_CPP_UPLOAD_H_

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/cpp/channel.h"
#include "client/cpp/formats/status_macros.h"
#include "proto/wire/crc32c.h"

namespace vicinal::client::internal {

// True if resuming the upload at once may succeed: the stream was interrupted, or a chunk was damaged or out of place.
bool MayGoOn(const absl::Status& status);
// True if resuming may succeed later: as above, or the upload did not fit now, or a deadline passed.
bool MayGoOnLater(const absl::Status& status);

// A random id in the grammar of upload ids.
std::string RandomUploadId();

// Declares `tensors` in the spec and generates an upload id if it has none. INVALID_ARGUMENT: data of a wrong size.
template <class Spec>
absl::Status FillSpec(const std::vector<UploadTensor>& tensors, Spec* spec);

// The number of bytes per tensor that the server has.
using Offsets = std::vector<int64_t>;
// INVALID_ARGUMENT if the upload was started with other tensors.
absl::StatusOr<Offsets> OffsetsOf(const v1::Upload& upload, const std::vector<UploadTensor>& tensors);
absl::Status CheckTensors(const std::vector<UploadTensor>& tensors);

template <class Spec>
absl::Status FillSpec(const std::vector<UploadTensor>& tensors, Spec* spec) {
  CLIENT_RETURN_IF_ERROR(CheckTensors(tensors));
  if (spec->upload_id().empty()) spec->set_upload_id(RandomUploadId());
  spec->clear_tensors();
  for (const UploadTensor& tensor : tensors) {
    v1::TensorSpec* declared = spec->add_tensors();
    declared->set_name(tensor.name);
    declared->set_dtype(tensor.dtype);
    for (const int64_t extent : tensor.shape) declared->add_shape(extent);
  }
  return absl::OkStatus();
}

template <class Request, class Response, class Spec>
class Upload {
 public:
  using Writer = std::unique_ptr<grpc::ClientWriter<Request>>;
  // Opens the stream (the stub's method).
  using Open = std::function<Writer(grpc::ClientContext*, Response*)>;
  using AskProgress = std::function<absl::StatusOr<v1::Upload>(const std::string& upload_id)>;

  // All references must outlive the object. `chunk_bytes` > 0.
  Upload(const Channel& channel, Open open, AskProgress ask, const std::string& graph, int64_t chunk_bytes,
         const std::vector<UploadTensor>& tensors, const UploadOptions& options)
      : channel_(channel),
        open_(std::move(open)),
        ask_(std::move(ask)),
        graph_(graph),
        chunk_bytes_(chunk_bytes),
        tensors_(tensors),
        options_(options) {
    for (const UploadTensor& tensor : tensors_) total_bytes_ += static_cast<int64_t>(tensor.data.size());
  }

  // Waits until `wait_for` holds of the finished upload, again if the connection breaks. Errors of the version, and
  // NOT_FOUND if the server does not know the upload any more; errors that end the wait only carry the upload id.
  absl::StatusOr<Response> Wait(const std::string& upload_id, v1::WaitFor wait_for) {
    absl::Status last;
    for (int attempt = 0; attempt < std::max(1, channel_.options().upload_attempts); ++attempt) {
      if (attempt > 0) channel_.Backoff(attempt);
      Response response;
      grpc::ClientContext context;
      channel_.Prepare(&context, channel_.options().upload_timeout, graph_);
      const Writer writer = open_(&context, &response);
      Request resume, finish;
      resume.set_resume_upload_id(upload_id);
      finish.mutable_finish()->set_wait_for(wait_for);
      if (writer->Write(resume) && writer->Write(finish)) writer->WritesDone();
      last = channel_.Translate(writer->Finish());
      if (last.ok()) return response;
      if (!IsBrokenOff(last)) break;
    }
    if (!IsBrokenOff(last) && !absl::IsDeadlineExceeded(last) && !absl::IsCancelled(last)) return last;
    return WithUploadId(AddToMessage(last, "; the upload is complete and goes on: wait again with the id " + upload_id),
                        upload_id);
  }

  // `begun`: an upload with the spec's id may already exist.
  absl::StatusOr<Response> Run(const Spec& spec, bool begun) {
    absl::Status last;
    bool broken_off = false;  // an attempt was interrupted, so the server may have some bytes
    for (int attempt = 0; attempt < std::max(1, channel_.options().upload_attempts); ++attempt) {
      if (attempt > 0) channel_.Backoff(attempt);
      Response response;
      last = Attempt(spec, begun || attempt > 0, /*ours=*/attempt > 0, &response);
      if (last.ok()) return response;
      if (!MayGoOn(last)) break;
      broken_off = true;
    }
    if (!MayGoOnLater(last) || !(broken_off || HasSome(spec.upload_id()))) return last;
    return WithUploadId(
        AddToMessage(last, "; the server keeps the received bytes: resume the upload with the id " + spec.upload_id()),
        spec.upload_id());
  }

 private:
  // `ours`: if the server has an upload with that id, this object started it. Any other may have another specification;
  // then the request carries ours, and the server returns an error if they differ.
  absl::Status Attempt(const Spec& spec, bool begun, bool ours, Response* response) {
    Request first;
    Offsets offsets(tensors_.size(), 0);
    if (begun) {
      const absl::StatusOr<v1::Upload> upload = ask_(spec.upload_id());
      if (!upload.ok() && !absl::IsNotFound(upload.status())) return upload.status();
      if (upload.ok()) {
        CLIENT_ASSIGN_OR_RETURN(offsets, OffsetsOf(*upload, tensors_));
        // The server may drop an upload without any data at any time; the spec then starts it again.
        if (ours && AnyOf(offsets)) first.set_resume_upload_id(spec.upload_id());
      }
    }
    if (first.message_case() == Request::MESSAGE_NOT_SET) *first.mutable_spec() = spec;

    grpc::ClientContext context;
    channel_.Prepare(&context, channel_.options().upload_timeout, graph_);
    const Writer writer = open_(&context, response);
    // If a write fails, the call has ended, and Finish returns the reason.
    if (writer->Write(first) && SendChunks(writer.get(), offsets)) {
      Request finish;
      finish.mutable_finish();
      writer->Write(finish);
      writer->WritesDone();
    }
    return channel_.Translate(writer->Finish());
  }

  static bool AnyOf(const Offsets& offsets) {
    return std::any_of(offsets.begin(), offsets.end(), [](int64_t offset) { return offset > 0; });
  }

  // Whether the server has any bytes of the upload.
  bool HasSome(const std::string& upload_id) const {
    const absl::StatusOr<v1::Upload> upload = ask_(upload_id);
    if (!upload.ok()) return false;
    const absl::StatusOr<Offsets> offsets = OffsetsOf(*upload, tensors_);
    return offsets.ok() && AnyOf(*offsets);
  }

  bool SendChunks(grpc::ClientWriter<Request>* writer, const Offsets& offsets) {
    UploadProgress progress{0, total_bytes_};
    for (const int64_t offset : offsets) progress.sent_bytes += offset;
    Request request;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const UploadTensor& tensor = tensors_[i];
      const auto size = static_cast<int64_t>(tensor.data.size());
      for (int64_t offset = offsets[i]; offset < size;) {
        const int64_t bytes = std::min(chunk_bytes_, size - offset);
        v1::UploadChunk* chunk = request.mutable_chunk();
        chunk->set_tensor(tensor.name);
        chunk->set_offset_bytes(offset);
        chunk->set_data(tensor.data.data() + offset, static_cast<size_t>(bytes));
        chunk->set_crc32c(wire::Crc32c(tensor.data.data() + offset, static_cast<size_t>(bytes)));
        if (!writer->Write(request)) return false;
        offset += bytes;
        progress.sent_bytes += bytes;
        if (options_.progress) options_.progress(progress);
      }
    }
    return true;
  }

  const Channel& channel_;
  const Open open_;
  const AskProgress ask_;
  const std::string graph_;
  const int64_t chunk_bytes_;
  const std::vector<UploadTensor>& tensors_;
  const UploadOptions& options_;
  int64_t total_bytes_ = 0;
};

}  // namespace vicinal::client::internal

#endif  // VICINAL_CLIENT_CPP_UPLOAD_H_
