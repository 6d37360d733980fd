// SPDX-License-Identifier: Apache-2.0
// A gRPC service made method by method. Reactors read messages as Received<Request> (received.h). Methods of one
// request are registered as bidirectional streams: the same bytes on the wire, but gRPC then calls us when the headers
// have come, and not only once the message has.
#ifndef VICINAL_SERVER_SERVICES_METHOD_SERVICE_H_
#define VICINAL_SERVER_SERVICES_METHOD_SERVICE_H_

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/rpc_method.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/core.h"
#include "server/services/reactors.h"
#include "server/services/received.h"
#include "server/services/upload_reactor.h"

namespace vicinal::server {

class MethodService : public grpc::Service {
 public:
  // `core` must outlive the service.
  explicit MethodService(Core& core) : core_(core) {}

  // `Reactor`: of reactors.h, or one that is made like those; `handle` is kept as long as the service.
  template <template <class, class> class Reactor, class Request, class Response>
  void Add(Method method, typename Reactor<Request, Response>::Handle handle) {
    AddStream<Request, Response>(InfoOf(method).name,
                                 [this, method, handle = std::move(handle)](grpc::CallbackServerContext* context) {
                                   return new Reactor<Request, Response>(core_, context, method, handle);
                                 });
  }
  // The commonest kind: a handler's function that answers at once.
  template <class Handler, class Request, class Response>
  void AddAnswer(Method method, Handler& handler, Status (Handler::*answer)(const Call&, const Request&, Response*)) {
    Add<AnswerReactor, Request, Response>(method,
                                          [&handler, answer](Call& call, const Request& request, Response* response) {
                                            return (handler.*answer)(call, request, response);
                                          });
  }
  // `make(context)`: a reactor with a function Begin, called at once.
  template <class Request, class Response, class Make>
  void AddStream(std::string_view name, Make make) {
    Register(name, grpc::internal::RpcMethod::BIDI_STREAMING,
             new grpc::internal::CallbackBidiHandler<ReadAs<Request>, Response>(
                 [make = std::move(make)](grpc::CallbackServerContext* context) {
                   return OrNoMemory<grpc::ServerBidiReactor<ReadAs<Request>, Response>>(
                       [&] { return Begun(make(context)); });
                 }));
  }
  // `open(call)`: the stream of one upload (UploadReactor).
  template <class Request, class Response, class Open>
  void AddUpload(Method method, Open open) {
    Register(InfoOf(method).name, grpc::internal::RpcMethod::CLIENT_STREAMING,
             new grpc::internal::CallbackClientStreamingHandler<Received<Request>, Response>(
                 [this, method, open = std::move(open)](grpc::CallbackServerContext* context, Response* response) {
                   return OrNoMemory<grpc::ServerReadReactor<Received<Request>>>([&] {
                     auto* reactor = new UploadReactor<Request, Response>(core_, context, method, response);
                     reactor->Run(open);
                     return reactor;
                   });
                 }));
  }

 private:
  // Bytes always come, messages may not parse.
  template <class Request>
  using ReadAs = std::conditional_t<std::is_same_v<Request, grpc::ByteBuffer>, Request, Received<Request>>;

  // Ends a call for which there is no memory at all.
  template <class Reactor>
  class NoMemory final : public Reactor {
   public:
    NoMemory() { this->Finish(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "")); }
    void OnDone() override { delete this; }
  };
  template <class Reactor, class Make>
  static Reactor* OrNoMemory(Make&& make) {
    try {
      return make();
    } catch (const std::bad_alloc&) {
      return new NoMemory<Reactor>;
    }
  }
  template <class Reactor>
  static Reactor* Begun(Reactor* reactor) {
    std::unique_ptr<Reactor> owned(reactor);  // nobody else's if Begin throws
    reactor->Begin();
    return owned.release();
  }

  void Register(std::string_view name, grpc::internal::RpcMethod::RpcType type,
                grpc::internal::MethodHandler* handler) {
    names_.push_back(absl::StrCat("/", absl::string_view(name.data(), name.size())));
    AddMethod(new grpc::internal::RpcServiceMethod(names_.back().c_str(), type, nullptr));
    MarkMethodCallback(static_cast<int>(names_.size()) - 1, handler);
  }

  Core& core_;
  std::deque<std::string> names_;  // gRPC keeps pointers to them
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_SERVICES_METHOD_SERVICE_H_
