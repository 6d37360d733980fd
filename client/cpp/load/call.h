// SPDX-License-Identifier: Apache-2.0
// One call of a load on a completion queue: a unary call, or a server stream that is read to its end. Whoever takes
// events from the queue passes them to Proceed, which says which calls have ended. Not thread-safe; the events of a
// call come one after another.
#ifndef VICINAL_CLIENT_CPP_LOAD_CALL_H_
#define VICINAL_CLIENT_CPP_LOAD_CALL_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "client/cpp/channel.h"
#include "client/cpp/load/record.h"
#include "client/cpp/load/requests.h"
#include "vicinal/v1/inference.pb.h"

namespace vicinal::client::load {

// A connection of its own.
struct Connection {
  explicit Connection(const ClientOptions& options) : channel(options), stub(channel.grpc()) {}

  internal::Channel channel;
  grpc::GenericStub stub;
};

class Call;
using EndedCalls = std::vector<std::unique_ptr<Call>>;

// The tag of operations on a completion queue.
class Event {
 public:
  virtual ~Event() = default;
  // Takes the end of an operation. Adds the calls that have ended with it, whose outcomes are complete but for the
  // time.
  virtual void Proceed(bool ok, EndedCalls* ended) = 0;
};

class Call final : public Event {
 public:
  // `user`: of a closed loop, kept for the caller. `outcome`: step and times so far.
  Call(DrawnCall drawn, int user, const CallOutcome& outcome)
      : drawn_(std::move(drawn)), user_(user), outcome_(outcome) {
    outcome_.method = drawn_.method;
  }

  // Sends the request. `timeout` is positive.
  void Start(Connection& connection, std::chrono::milliseconds timeout, grpc::CompletionQueue* queue);
  // A call that was started is its own when it has ended.
  void Proceed(bool ok, EndedCalls* ended) override;
  // Of a call that was not started, but is answered on a stream of many (call_stream.h).
  const DrawnCall& drawn() const { return drawn_; }
  void TakeAnswer(const v1::InferStreamResponse& answer, int64_t bytes);
  void Fail(const absl::Status& status);

  int user() const { return user_; }
  CallOutcome& outcome() { return outcome_; }

 private:
  enum class State { kStarting, kReading, kFinishing };
  // True: the call has ended.
  bool Advance(bool ok);
  void TakeReply();
  void TakeStatus();

  DrawnCall drawn_;
  const int user_;
  CallOutcome outcome_;
  const internal::Channel* channel_ = nullptr;
  State state_ = State::kStarting;
  grpc::ClientContext context_;
  grpc::ByteBuffer reply_;
  grpc::Status status_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> unary_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> stream_;
};

}  // namespace vicinal::client::load

#endif  // VICINAL_CLIENT_CPP_LOAD_CALL_H_
