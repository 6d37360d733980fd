// SPDX-License-Identifier: Apache-2.0
// Shared by all calls of the client: the channel, deadlines, metadata, and the conversion of gRPC statuses. Internal to
// the client library.
#ifndef VICINAL_CLIENT_CPP_CHANNEL_H_
#define VICINAL_CLIENT_CPP_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/cpp/client.h"
#include "client/cpp/errors.h"
#include "client/cpp/printable.h"

namespace vicinal::client::internal {

class Channel {
 public:
  explicit Channel(const ClientOptions& options);

  const ClientOptions& options() const { return options_; }
  const std::shared_ptr<grpc::Channel>& grpc() const { return channel_; }

  // Sets deadline (zero: none), token, and the graph's name unless it is empty.
  void Prepare(grpc::ClientContext* context, std::chrono::milliseconds timeout, const std::string& graph) const;

  // What the library does to every reply before anyone sees it.
  void Receive(google::protobuf::Message* reply) const {
    if (options_.printable) MakePrintable(reply);
  }

  absl::Status Translate(const grpc::Status& status) const { return FromGrpcStatus(status, options_.target); }

  // Waits before attempt number `attempt` (1, 2, ...): 0.2 s, doubling, at most 3 s.
  void Backoff(int attempt) const;

  // One unary call: Call(stub.get(), &Stub::GetGraph, request, graph).
  template <class Stub, class Request, class Response>
  absl::StatusOr<Response> Call(Stub* stub,
                                grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                                const Request& request, const std::string& graph) const {
    return Call(stub, method, request, graph, options_.call_timeout);
  }
  template <class Stub, class Request, class Response>
  absl::StatusOr<Response> Call(Stub* stub,
                                grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                                const Request& request, const std::string& graph,
                                std::chrono::milliseconds timeout) const {
    grpc::ClientContext context;
    Prepare(&context, timeout, graph);
    Response response;
    const grpc::Status status = (stub->*method)(&context, request, &response);
    if (!status.ok()) return Translate(status);
    Receive(&response);
    return response;
  }

 private:
  const ClientOptions options_;
  const std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace vicinal::client::internal

#endif  // VICINAL_CLIENT_CPP_CHANNEL_H_
