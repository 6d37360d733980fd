// SPDX-License-Identifier: Apache-2.0
// The kinds of calls with one request: an immediate reply, a later reply, a result in pieces (uploads are in
// upload_reactor.h). gRPC sees each as a bidirectional stream (method_service.h), so that the reactor begins when the
// headers have come: whoever may not call is answered then, and the message is never read.
//
// Each reactor owns its RpcScope, its messages and itself; gRPC calls OnDone last. Nothing here starts an operation
// while it holds a lock, but for a call that is ended while it waits for its message (open_calls.h). Running out of
// memory ends the call with RESOURCE_EXHAUSTED: gRPC would swallow the exception, and the call would never end.
#ifndef VICINAL_SERVER_SERVICES_REACTORS_H_
#define VICINAL_SERVER_SERVICES_REACTORS_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <utility>

#include "engine/base/out_of_memory.h"
#include "server/handlers/pieces.h"
#include "server/rpc_scope.h"
#include "server/services/received.h"
#include "server/services/send_stall.h"

namespace vicinal::server {

// Derived classes answer in Start, which ends in one Complete, now or later, on any thread.
template <class Request, class Response>
class CallReactor : public grpc::ServerBidiReactor<Received<Request>, Response> {
 public:
  CallReactor(Core& core, grpc::CallbackServerContext* context, Method method)
      : core_(core), scope_(core, context, method) {}

  // Call once, after construction.
  void Begin() {
    if (!scope_.admitted().ok()) return Complete(scope_.admitted());
    const Status status = OrOutOfMemory([&]() -> Status {
      scope_.AwaitMessage([this](const Status& why) { Complete(why); });
      return OkStatus();
    });
    if (!status.ok()) return Complete(status);
    this->StartRead(&received_);
  }
  void OnReadDone(bool ok) final {
    // False: the call has been ended for the time it took.
    if (!scope_.MessageArrived()) return;
    const Status status = OrOutOfMemory([&]() -> Status {
      if (!ok) return scope_.WhyNoMessage();
      VICINAL_RETURN_IF_ERROR(scope_.CheckArrival(received_.arrival));
      scope_.About(request());
      VICINAL_RETURN_IF_ERROR(scope_.Take(request()));
      Start();
      return OkStatus();
    });
    if (!status.ok()) Complete(status);
  }
  void OnCancel() override { scope_.Cancel(); }
  void OnDone() override { delete this; }

 protected:
  // The message has come. May throw std::bad_alloc, but only as long as nothing else can call Complete.
  virtual void Start() = 0;
  // Ends the call. `status` not OK: without a reply.
  virtual void Complete(const Status& status) = 0;
  const Request& request() const { return received_.message; }

  Core& core_;
  RpcScope scope_;
  Response response_;

 private:
  Received<Request> received_;
};

// One reply, or an error.
template <class Request, class Response>
class UnaryReactor : public CallReactor<Request, Response> {
 public:
  using CallReactor<Request, Response>::CallReactor;

 protected:
  void Complete(const Status& status) override {
    grpc::Status sent = this->scope_.Finish(status);
    if (!status.ok()) return this->Finish(std::move(sent));
    this->StartWriteAndFinish(&this->response_, grpc::WriteOptions(), std::move(sent));
  }
};

// `handle(call, request, response)` answers at once.
template <class Request, class Response>
class AnswerReactor final : public UnaryReactor<Request, Response> {
 public:
  using Handle = std::function<Status(Call& call, const Request& request, Response* response)>;
  AnswerReactor(Core& core, grpc::CallbackServerContext* context, Method method, const Handle& handle)
      : UnaryReactor<Request, Response>(core, context, method), handle_(handle) {}

 private:
  void Start() override { this->Complete(handle_(this->scope_.call(), this->request(), &this->response_)); }

  const Handle& handle_;
};

// `start(call, request, response, done)` calls `done(status)` once, now or later, on any thread.
template <class Request, class Response>
class LaterReactor final : public UnaryReactor<Request, Response> {
 public:
  using Done = std::function<void(const Status& outcome)>;
  using Handle = std::function<void(Call& call, const Request& request, Response* response, Done done)>;
  LaterReactor(Core& core, grpc::CallbackServerContext* context, Method method, const Handle& start)
      : UnaryReactor<Request, Response>(core, context, method), start_(start) {}

 private:
  void Start() override {
    start_(this->scope_.call(), this->request(), &this->response_,
           [this](const Status& outcome) { this->Complete(outcome); });
  }

  const Handle& start_;
};

// `start(call, request, done)` calls `done(StatusOr<pieces>)` once. The next piece is made when the previous one has
// been sent. A client that reads none for --send_timeout ends the stream.
template <class Request, class Response>
class PiecesReactor final : public CallReactor<Request, Response> {
 public:
  using Done = std::function<void(StatusOr<std::unique_ptr<Pieces<Response>>> pieces)>;
  using Handle = std::function<void(Call& call, const Request& request, Done done)>;
  PiecesReactor(Core& core, grpc::CallbackServerContext* context, Method method, const Handle& start)
      : CallReactor<Request, Response>(core, context, method), start_(start), stall_(core, context) {}

  void OnWriteDone(bool ok) override {
    if (!ok) return Complete(stall_.ended() ? stall_.Why() : this->scope_.WhyCancelled());
    stall_.Sending();
    if (last_) return Complete(OkStatus());
    WriteNext();
  }
  void OnDone() override {
    if (!stall_.begun()) {
      delete this;
      return;
    }
    // On a worker: the end of stall_ waits for a running callback, which may be the caller of this function.
    this->core_.workers.PostAdmitted([this] { delete this; });
  }

 private:
  void Start() override {
    start_(this->scope_.call(), this->request(), [this](StatusOr<std::unique_ptr<Pieces<Response>>> pieces) {
      if (!pieces.ok()) return Complete(pieces.status());
      pieces_ = *std::move(pieces);
      stall_.Begin();
      stall_.Sending();
      WriteNext();
    });
  }
  void WriteNext() {
    const Status status = OrOutOfMemory([&]() -> Status {
      VICINAL_RETURN_IF_ERROR(this->scope_.call().limits.Check(this->core_.clock));
      VICINAL_ASSIGN_OR_RETURN(last_, pieces_->Next(&this->response_));
      return OkStatus();
    });
    if (!status.ok()) return Complete(status);
    this->StartWrite(&this->response_);
  }
  void Complete(const Status& status) override { this->Finish(this->scope_.Finish(status)); }

  const Handle& start_;
  std::unique_ptr<Pieces<Response>> pieces_;
  SendStall stall_;
  bool last_ = false;
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_SERVICES_REACTORS_H_
