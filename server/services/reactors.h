// SPDX-License-Identifier: Apache-2.0
// The kinds of calls: an immediate reply, a later reply, a result in pieces, an upload. Each reactor owns its RpcScope
// and itself; gRPC calls OnDone last. Nothing here starts an operation while it holds a lock.
// Running out of memory ends the call with RESOURCE_EXHAUSTED: gRPC would swallow the exception, and the call would
// never end.
#ifndef VICINAL_SERVER_SERVICES_REACTORS_H_
#define VICINAL_SERVER_SERVICES_REACTORS_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <utility>

#include "engine/base/mutex.h"
#include "engine/base/out_of_memory.h"
#include "server/handlers/pieces.h"
#include "server/handlers/upload_stream.h"
#include "server/rpc_scope.h"

namespace vicinal::server {

// `handle(call)` answers at once.
template <class Request, class Handle>
grpc::ServerUnaryReactor* Answer(Core& core, grpc::CallbackServerContext* context, Method method,
                                 const Request& request, Handle&& handle) {
  RpcScope scope(core, context, method);
  const Status status = OrOutOfMemory([&]() -> Status {
    scope.About(request);
    VICINAL_RETURN_IF_ERROR(scope.admitted());
    VICINAL_RETURN_IF_ERROR(scope.Take(request));
    return handle(scope.call());
  });
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(scope.Finish(status));
  return reactor;
}

// `start(call, done)` calls `done(status)` once, now or later, on any thread. It may throw std::bad_alloc only before
// it passes `done` on.
class LaterReactor final : public grpc::ServerUnaryReactor {
 public:
  LaterReactor(Core& core, grpc::CallbackServerContext* context, Method method) : scope_(core, context, method) {}

  template <class Request, class Start>
  void Run(const Request& request, Start&& start) {
    const Status status = OrOutOfMemory([&]() -> Status {
      scope_.About(request);
      VICINAL_RETURN_IF_ERROR(scope_.admitted());
      VICINAL_RETURN_IF_ERROR(scope_.Take(request));
      start(scope_.call(), [this](const Status& outcome) { Complete(outcome); });
      return OkStatus();
    });
    if (!status.ok()) Complete(status);
  }
  void OnCancel() override { scope_.Cancel(); }
  void OnDone() override { delete this; }

 private:
  void Complete(const Status& status) { Finish(scope_.Finish(status)); }

  RpcScope scope_;
};

template <class Request, class Start>
grpc::ServerUnaryReactor* AnswerLater(Core& core, grpc::CallbackServerContext* context, Method method,
                                      const Request& request, Start&& start) {
  auto* reactor = new LaterReactor(core, context, method);
  reactor->Run(request, std::forward<Start>(start));
  return reactor;
}

// `start(call, done)` calls `done(StatusOr<pieces>)` once, and throws as above. The next piece is made when the
// previous one has been sent.
template <class Response>
class PiecesReactor final : public grpc::ServerWriteReactor<Response> {
 public:
  PiecesReactor(Core& core, grpc::CallbackServerContext* context, Method method)
      : core_(core), scope_(core, context, method) {}

  template <class Request, class Start>
  void Run(const Request& request, Start&& start) {
    const Status status = OrOutOfMemory([&]() -> Status {
      scope_.About(request);
      VICINAL_RETURN_IF_ERROR(scope_.admitted());
      VICINAL_RETURN_IF_ERROR(scope_.Take(request));
      start(scope_.call(), [this](StatusOr<std::unique_ptr<Pieces<Response>>> pieces) {
        if (!pieces.ok()) return Complete(pieces.status());
        pieces_ = *std::move(pieces);
        WriteNext();
      });
      return OkStatus();
    });
    if (!status.ok()) Complete(status);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Complete(scope_.WhyCancelled());
    if (last_) return Complete(OkStatus());
    WriteNext();
  }
  void OnCancel() override { scope_.Cancel(); }
  void OnDone() override { delete this; }

 private:
  void WriteNext() {
    const Status status = OrOutOfMemory([&]() -> Status {
      VICINAL_RETURN_IF_ERROR(scope_.call().limits.Check(core_.clock));
      VICINAL_ASSIGN_OR_RETURN(last_, pieces_->Next(&response_));
      return OkStatus();
    });
    if (!status.ok()) return Complete(status);
    this->StartWrite(&response_);
  }
  void Complete(const Status& status) { this->Finish(scope_.Finish(status)); }

  Core& core_;
  RpcScope scope_;
  std::unique_ptr<Pieces<Response>> pieces_;
  Response response_;
  bool last_ = false;
};

template <class Response, class Request, class Start>
grpc::ServerWriteReactor<Response>* AnswerInPieces(Core& core, grpc::CallbackServerContext* context, Method method,
                                                   const Request& request, Start&& start) {
  auto* reactor = new PiecesReactor<Response>(core, context, method);
  reactor->Run(request, std::forward<Start>(start));
  return reactor;
}

// Chunks in order, one in memory at a time; finish runs on a worker. A draining server ends the stream unless it is
// finishing, because received data is lost with the process anyway. A client that is silent for --upload_ttl also ends
// it.
template <class Request, class Response>
class UploadReactor final : public grpc::ServerReadReactor<Request> {
 public:
  using Stream = UploadStream<Request, Response>;

  UploadReactor(Core& core, grpc::CallbackServerContext* context, Method method, Response* response)
      : core_(core), context_(context), scope_(core, context, method), response_(response) {}

  // `open(call)` makes the stream.
  template <class Open>
  void Run(Open&& open) {
    const Status status = OrOutOfMemory([&]() -> Status {
      VICINAL_RETURN_IF_ERROR(scope_.admitted());
      stream_ = open(scope_.call());
      drain_id_ = core_.drain.OnDrain([this] { EndUnlessFinishing(Drain::Refusal()); });
      silence_id_ = core_.silences.Begin([this] { EndUnlessFinishing(Silent()); });
      return OkStatus();
    });
    if (!status.ok()) return Complete(status);
    this->StartRead(&request_);
  }
  void OnReadDone(bool ok) override {
    if (!ok) return End(OrOutOfMemory([&] { return Close(); }));
    core_.silences.Heard(silence_id_);
    const StatusOr<UploadNext> next = OrOutOfMemory([&]() -> StatusOr<UploadNext> {
      VICINAL_RETURN_IF_ERROR(scope_.CheckSize(request_.ByteSizeLong()));
      const bool first = !stream_->begun();
      if (first) scope_.About(request_);
      StatusOr<UploadNext> taken = stream_->Take(request_);
      if (first && stream_->begun()) scope_.About(stream_->Describe());
      return taken;
    });
    if (!next.ok()) return End(next.status());
    {
      MutexLock lock(&mutex_);
      if (ended_) return;
      finishing_ = *next == UploadNext::kFinish;
    }
    if (*next == UploadNext::kRead) {
      // Frees the message's other memory while waiting for the next chunk.
      if (request_.SpaceUsedLong() > 2 * static_cast<size_t>(core_.limits.max_chunk_bytes)) request_ = Request();
      return this->StartRead(&request_);
    }
    const Status posted = OrOutOfMemory([this] { return core_.workers.Post([this] { End(Conclude()); }); });
    if (!posted.ok()) End(posted);
  }
  void OnCancel() override { scope_.Cancel(); }
  void OnDone() override {
    // On a worker: Forget waits for a running EndUnlessFinishing, which may be the caller of this function.
    core_.workers.PostAdmitted([this] {
      core_.drain.Forget(drain_id_);
      core_.silences.Forget(silence_id_);
      delete this;
    });
  }

 private:
  // The client has closed its side.
  Status Close() { return context_->IsCancelled() ? scope_.WhyCancelled() : Told(stream_->End(response_)); }
  Status Conclude() {
    return OrOutOfMemory([this] { return Told(stream_->Finish(scope_.call(), response_)); });
  }
  Status Told(const Status& status) {
    if (status.ok()) scope_.About(*response_);
    return status;
  }
  // Called only by the thread that works on the stream.
  void End(const Status& status) {
    stream_->Leave();
    Complete(status);
  }
  void EndUnlessFinishing(const Status& status) {
    {
      MutexLock lock(&mutex_);
      if (finishing_) return;
    }
    Complete(status);
  }
  Status Silent() const {
    return OrOutOfMemory([this] { return UploadSilent(core_.limits.upload_ttl); });
  }
  void Complete(const Status& status) {
    {
      MutexLock lock(&mutex_);
      if (ended_) return;
      ended_ = true;
    }
    this->Finish(scope_.Finish(status));
  }

  Core& core_;
  grpc::CallbackServerContext* const context_;
  RpcScope scope_;
  Response* const response_;
  Request request_;
  std::unique_ptr<Stream> stream_;
  int64_t drain_id_ = 0, silence_id_ = 0;
  Mutex mutex_;
  bool finishing_ VICINAL_GUARDED_BY(mutex_) = false;
  bool ended_ VICINAL_GUARDED_BY(mutex_) = false;
};

template <class Request, class Response, class Open>
grpc::ServerReadReactor<Request>* TakeUpload(Core& core, grpc::CallbackServerContext* context, Method method,
                                             Response* response, Open&& open) {
  auto* reactor = new UploadReactor<Request, Response>(core, context, method, response);
  reactor->Run(std::forward<Open>(open));
  return reactor;
}

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_SERVICES_REACTORS_H_
