// SPDX-License-Identifier: Apache-2.0
// A server for the client's tests that obeys no rule of the API: it answers each method, by its path, with whatever
// messages the test wants, also without end. Real gRPC on a port of its own.
#ifndef VICINAL_TESTS_CLIENT_CPP_HOSTILE_SERVER_H_
#define VICINAL_TESTS_CLIENT_CPP_HOSTILE_SERVER_H_

#include <google/protobuf/message.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace vicinal::client {

// What a method sends: message number `i` (serialized; an error ends the stream), until `count` of them were sent.
struct HostileReply {
  std::function<std::string(int64_t i)> message;
  int64_t count = 1;
  grpc::Status status;
};

class HostileServer {
 public:
  // `path`: "/vicinal.v1.GraphService/GetGraph". Called for each call, on gRPC's threads.
  using Answer = std::function<HostileReply(const std::string& path)>;

  explicit HostileServer(bool compress = false);
  ~HostileServer();
  void set_answer(Answer answer);
  const std::string& target() const { return target_; }

 private:
  class Service;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::string target_;
};

// A reply of one message, or of the same one `count` times.
HostileReply Always(const google::protobuf::Message& message, int64_t count = 1);

// Sets every field, at every depth: strings to `text`, repeated fields to two entries, numbers to `number` (converted;
// the largest or smallest of the type where it does not fit), enums to a value that the API does not have.
void FillAll(const std::string& text, double number, google::protobuf::Message* message);

}  // namespace vicinal::client

#endif  // VICINAL_TESTS_CLIENT_CPP_HOSTILE_SERVER_H_
