// SPDX-License-Identifier: Apache-2.0
// The kinds of calls: an immediate reply, a later reply, a result in pieces (uploads are in upload_reactor.h). Each
// reactor owns its RpcScope and itself; gRPC calls OnDone last. Nothing here starts an operation while it holds a lock.
// Running out of memory ends the call with RESOURCE_EXHAUSTED: gRPC would swallow the exception, and the call would
// never end.
#ifndef VICINAL_SERVER_SERVICES_REACTORS_H_
#define VICINAL_SERVER_SERVICES_REACTORS_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "engine/base/out_of_memory.h"
#include "server/handlers/pieces.h"
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
// previous one has been sent. A client that reads none for --send_timeout ends the stream.
template <class Response>
class PiecesReactor final : public grpc::ServerWriteReactor<Response> {
 public:
  PiecesReactor(Core& core, grpc::CallbackServerContext* context, Method method)
      : core_(core), context_(context), scope_(core, context, method) {}

  template <class Request, class Start>
  void Run(const Request& request, Start&& start) {
    const Status status = OrOutOfMemory([&]() -> Status {
      scope_.About(request);
      VICINAL_RETURN_IF_ERROR(scope_.admitted());
      VICINAL_RETURN_IF_ERROR(scope_.Take(request));
      start(scope_.call(), [this](StatusOr<std::unique_ptr<Pieces<Response>>> pieces) {
        if (!pieces.ok()) return Complete(pieces.status());
        pieces_ = *std::move(pieces);
        stall_id_ = core_.stalls.Begin([this] {
          stalled_ = true;
          context_->TryCancel();
        });
        WriteNext();
      });
      return OkStatus();
    });
    if (!status.ok()) Complete(status);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Complete(stalled_ ? Stalled() : scope_.WhyCancelled());
    core_.stalls.Heard(stall_id_);
    if (last_) return Complete(OkStatus());
    WriteNext();
  }
  void OnCancel() override { scope_.Cancel(); }
  void OnDone() override {
    if (stall_id_ == 0) {
      delete this;
      return;
    }
    // On a worker: Forget waits for a running callback, which may be the caller of this function.
    core_.workers.PostAdmitted([this] {
      core_.stalls.Forget(stall_id_);
      delete this;
    });
  }

 private:
  Status Stalled() const {
    return OrOutOfMemory([this] { return SendStalled(core_.limits.send_timeout); });
  }
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
  grpc::CallbackServerContext* const context_;
  RpcScope scope_;
  std::unique_ptr<Pieces<Response>> pieces_;
  int64_t stall_id_ = 0;  // of core_.stalls
  std::atomic<bool> stalled_{false};
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

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_SERVICES_REACTORS_H_
