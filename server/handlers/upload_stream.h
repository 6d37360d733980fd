// SPDX-License-Identifier: Apache-2.0
// One upload stream without gRPC: what to do with each message, at the end, and while `finish` waits. The three kinds
// of uploads differ in the first message and in what finish makes; the rest is here. Calls come one at a time, but for
// those of a wait.
#ifndef VICINAL_SERVER_HANDLERS_UPLOAD_STREAM_H_
#define VICINAL_SERVER_HANDLERS_UPLOAD_STREAM_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "engine/base/error.h"
#include "server/call.h"
#include "server/handlers/wait_for.h"
#include "server/metrics/metrics.h"
#include "server/uploads/upload_store.h"

namespace vicinal::server {

// What a stream does after a message.
enum class UploadNext { kRead, kFinish };

// Request: UploadGraphRequest and its like, with spec, resume_upload_id, chunk, finish. Response: with `upload`.
template <class Request, class Response>
class UploadStream {
 public:
  using Spec = std::decay_t<decltype(std::declval<Request>().spec())>;
  // Begins an upload with the stream's first message.
  using Begin = std::function<StatusOr<UploadStore::Hold>(const Spec& spec)>;
  // Makes what was uploaded, and its part of the response.
  using Make = std::function<Status(const Spec& spec, UploadContent& content, Response* response)>;
  // Which version the response of Make is about.
  using VersionOf = std::function<UploadedVersion(const Response& made)>;
  // Sets the resource in the response to its present state.
  using Refresh = std::function<Status(Response* response)>;
  struct Steps {
    Begin begin;
    Make make;
    VersionOf version_of;
    Refresh refresh;
  };

  // All must outlive the stream.
  struct Parts {
    Engine& engine;
    UploadStore& store;
    Metrics& metrics;
  };
  UploadStream(const Parts& parts, UploadKind kind, Steps steps)
      : engine_(parts.engine), store_(parts.store), metrics_(parts.metrics), kind_(kind), steps_(std::move(steps)) {}
  UploadStream(const UploadStream&) = delete;
  UploadStream& operator=(const UploadStream&) = delete;
  ~UploadStream() { Leave(); }

  StatusOr<UploadNext> Take(const Request& request) {
    switch (request.message_case()) {
      case Request::kSpec: {
        VICINAL_RETURN_IF_ERROR(OnlyFirst());
        VICINAL_ASSIGN_OR_RETURN(hold_, steps_.begin(request.spec()));
        return UploadNext::kRead;
      }
      case Request::kResumeUploadId: {
        VICINAL_RETURN_IF_ERROR(OnlyFirst());
        VICINAL_ASSIGN_OR_RETURN(hold_, store_.Resume(kind_, request.resume_upload_id()));
        return UploadNext::kRead;
      }
      case Request::kChunk: {
        VICINAL_RETURN_IF_ERROR(NeedHold());
        VICINAL_ASSIGN_OR_RETURN(const int64_t bytes, store_.Append(hold_, request.chunk()));
        metrics_.UploadBytes(MetricsNameOf(kind_), bytes);
        return UploadNext::kRead;
      }
      case Request::kFinish: {
        VICINAL_RETURN_IF_ERROR(NeedHold());
        VICINAL_ASSIGN_OR_RETURN(wait_for_, FromProto(request.finish().wait_for(), engine_));
        return UploadNext::kFinish;
      }
      default:
        return InvalidArgument("BAD_UPLOAD", "message",
                               "a message of an upload is spec, resume_upload_id, chunk or finish");
    }
  }

  // After kFinish. May take long. Does not wait for what `finish` asked to wait for.
  Status Finish(const Call& call, Response* response) {
    // Outlives this stream, with the finished upload.
    const auto made_version = std::make_shared<UploadedVersion>();
    const auto make = [&](UploadContent& content) -> StatusOr<std::string> {
      Spec spec;
      if (!spec.ParseFromArray(content.spec.data(), static_cast<int>(content.spec.size())))
        return Internal("the upload's own spec does not parse");
      Response made;
      VICINAL_RETURN_IF_ERROR(steps_.make(spec, content, &made));
      *made_version = steps_.version_of(made);
      return made.SerializeAsString();
    };
    // A client that waits for the graph asks again for the end of its upload: that must be known until then.
    const auto goes_on = [&engine = engine_, made_version] {
      const auto reached = engine.HasReached(*made_version, engine.durable() ? WaitFor::kDurable : WaitFor::kReady);
      return reached.ok() && !*reached;
    };
    VICINAL_ASSIGN_OR_RETURN(const std::string bytes, store_.Finish(hold_, call.limits, make, goes_on));
    if (!response->ParseFromString(bytes)) return Internal("the upload's kept answer does not parse");
    *response->mutable_upload() = store_.Describe(hold_);
    version_ = steps_.version_of(*response);
    return OkStatus();
  }

  // --- after Finish, also after Leave: the wait ---
  bool waits() const { return wait_for_ != WaitFor::kAccepted; }
  // Calls `on_change` whenever Look may return something new, until the subscription is destroyed.
  std::unique_ptr<Subscription> Watch(std::function<void()> on_change) {
    return engine_.WatchVersion(version_, std::move(on_change));
  }
  // Whether the wait is over; then `response`, which Finish has filled, shows the present state. An error ends the
  // wait, too. Thread-safe.
  StatusOr<bool> Look(Response* response) const {
    VICINAL_ASSIGN_OR_RETURN(const bool reached, engine_.HasReached(version_, wait_for_));
    if (reached) VICINAL_RETURN_IF_ERROR(steps_.refresh(response));
    return reached;
  }

  // The client closed the stream without finish: the upload stays open if any data has arrived.
  Status End(Response* response) {
    VICINAL_RETURN_IF_ERROR(NeedHold());
    *response->mutable_upload() = store_.Describe(hold_);
    return OkStatus();
  }

  // The stream has its upload.
  bool begun() const { return hold_.upload != nullptr; }
  // REQUIRES: begun().
  v1::Upload Describe() const { return store_.Describe(hold_); }

  // The stream ends, for any reason; no more messages are accepted. Called before the client learns of the end: it
  // drops an upload without data, so that the client can start again at once.
  void Leave() {
    if (hold_.upload != nullptr) store_.Leave(hold_);
    hold_ = {};
  }

 private:
  Status OnlyFirst() const {
    if (hold_.upload == nullptr) return OkStatus();
    return InvalidArgument("BAD_UPLOAD", "message", "only the first message of a stream is spec or resume_upload_id");
  }
  Status NeedHold() const {
    if (hold_.upload != nullptr) return OkStatus();
    return InvalidArgument("BAD_UPLOAD", "message", "the first message of a stream must be spec or resume_upload_id");
  }

  Engine& engine_;
  UploadStore& store_;
  Metrics& metrics_;
  const UploadKind kind_;
  const Steps steps_;
  UploadStore::Hold hold_;
  WaitFor wait_for_ = WaitFor::kAccepted;
  UploadedVersion version_;
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_HANDLERS_UPLOAD_STREAM_H_
