// SPDX-License-Identifier: Apache-2.0
// An InferStream that carries many calls of a load: each is a request with a number, and ends with the answer that has
// it. Calls that the server does not take yet wait here.
#ifndef VICINAL_CLIENT_CPP_LOAD_CALL_STREAM_H_
#define VICINAL_CLIENT_CPP_LOAD_CALL_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include "client/cpp/load/call.h"

namespace vicinal::client::load {

// Whether calls of the method can go over an InferStream.
bool CanStream(Method method);

// Thread-safe: one thread may send while another takes events.
class CallStream {
 public:
  // Opens the stream. `connection` and `queue` must outlive it, and `queue` must have been drained before it is
  // destroyed.
  CallStream(Connection& connection, grpc::CompletionQueue* queue);

  // `timeout`: from now until the answer is of no use. REQUIRES: CanStream. False: the stream has ended, and the call,
  // which is untouched, needs another one.
  bool Send(std::unique_ptr<Call>* call, std::chrono::milliseconds timeout);
  // Ends the stream; its calls with it.
  void Cancel() { context_.TryCancel(); }

 private:
  // A tag for each kind of operation, which calls back.
  struct Tag final : Event {
    Tag(CallStream& to, void (CallStream::*with)(bool, EndedCalls*)) : stream(to), react(with) {}
    void Proceed(bool ok, EndedCalls* ended) override { (stream.*react)(ok, ended); }
    CallStream& stream;
    void (CallStream::*const react)(bool, EndedCalls*);
  };

  void Started(bool ok, EndedCalls* ended);
  void Written(bool ok, EndedCalls* ended);
  void Received(bool ok, EndedCalls* ended);
  void Finished(bool ok, EndedCalls* ended);
  // REQUIRES: the lock is held.
  void WriteNext();

  Connection& connection_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> stream_;
  Tag started_{*this, &CallStream::Started}, written_{*this, &CallStream::Written};
  Tag received_{*this, &CallStream::Received}, finished_{*this, &CallStream::Finished};
  grpc::ByteBuffer answer_;
  grpc::Status status_;
  std::mutex mutex_;  // guards what follows
  std::map<int64_t, std::unique_ptr<Call>> calls_;
  std::deque<grpc::ByteBuffer> waiting_;
  int64_t next_ = 0;
  bool writes_ = true;  // a write, or the start, is under way
  bool ended_ = false;
};

}  // namespace vicinal::client::load

#endif  // VICINAL_CLIENT_CPP_LOAD_CALL_STREAM_H_
