// SPDX-License-Identifier: Apache-2.0
// InferStream: many requests under way on one call, each with its own answer, error and deadline. Owns itself as other
// reactors do (reactors.h).
//
// Flow control: requests are read while fewer than kWindow are under way or wait to be read by the client, together
// with their answers have less than kWindowBytes, and streams of the same principal together have less than half of
// --max_stream_bytes_per_client; HTTP/2 then holds the client back. A stream that has nothing under way reads in any
// case, and its request is refused where the share is full. So streams hold a bounded part of memory, whatever their
// client does.
#ifndef VICINAL_SERVER_SERVICES_QUERY_STREAM_REACTOR_H_
#define VICINAL_SERVER_SERVICES_QUERY_STREAM_REACTOR_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <optional>

#include "engine/base/mutex.h"
#include "server/handlers/inference_handler.h"
#include "server/rpc_scope.h"
#include "server/services/received.h"
#include "server/services/send_stall.h"
#include "vicinal/v1/inference.pb.h"

namespace vicinal::server {

class QueryStreamReactor final
    : public grpc::ServerBidiReactor<Received<v1::InferStreamRequest>, v1::InferStreamResponse> {
 public:
  static constexpr size_t kWindow = 64;
  static constexpr int64_t kWindowBytes = 32 << 20;

  QueryStreamReactor(Core& core, grpc::CallbackServerContext* context, InferenceHandler& handler)
      : core_(core),
        context_(context),
        handler_(handler),
        scope_(core, context, Method::kInferStream),
        stall_(core, context) {}

  // Call once, after construction.
  void Begin();
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override { scope_.Cancel(); }
  void OnDone() override;

 private:
  // One request, from before it is read until its answer has been sent.
  struct Query {
    Received<v1::InferStreamRequest> received;
    v1::InferStreamResponse response;
    std::optional<Call> call;
    Reservation memory;
    int64_t bytes = 0;  // of request and answer, as far as they are known; once answered, of the answer
    bool answered = false;
    std::list<Query>::iterator self;
  };
  // How the stream ends.
  struct End {
    Status status;
    bool drops_answers = false;  // those that are not sent yet
  };
  enum class Step { kNothing, kRead, kWrite, kFinish };

  // What the first request says of the stream, or why another one may not say so.
  Status TakeOrder(const v1::InferStreamRequest& request);
  void Answer(Query* query);
  // On any thread: the handler is done with the query.
  void Answered(Query* query, const Status& status);
  // Of a stream that was cancelled, by its client or because nobody reads it.
  Status WhyBroken() const { return stall_.ended() ? stall_.Why() : scope_.WhyCancelled(); }
  // By any thread. The first call decides, but that nothing waits for answers goes before that something does.
  void EndWith(const Status& status, bool drops_answers);
  // Starts what is due. `answered`: a query that has its answer now, or null. `started`: the caller has counted itself
  // in starting_ and is done. After it `this` may be gone.
  void Go(Query* answered, bool started = false);
  Step Next() VICINAL_REQUIRES(mutex_);
  void Start(Step step);
  // Whether the client is waited for: nothing of it is under way.
  void WatchSilence() VICINAL_REQUIRES(mutex_);
  int64_t Bytes() const VICINAL_REQUIRES(mutex_);
  // Whether another request may be read.
  bool HasRoom() VICINAL_REQUIRES(mutex_);

  Core& core_;
  grpc::CallbackServerContext* const context_;
  InferenceHandler& handler_;
  RpcScope scope_;
  SendStall stall_;
  int64_t drain_id_ = 0, silence_id_ = 0;
  bool spoken_ = false;  // the first message has come

  Mutex mutex_;
  std::optional<v1::AnswerOrder> order_ VICINAL_GUARDED_BY(mutex_);  // as the first request that names one says
  std::list<Query> queries_ VICINAL_GUARDED_BY(mutex_);              // in order of arrival
  std::deque<Query*> answered_ VICINAL_GUARDED_BY(mutex_);  // in order of their answers; of streams as completed
  std::list<Query> arriving_ VICINAL_GUARDED_BY(mutex_);    // the one that is being read; gRPC writes its request
  Query* sending_ VICINAL_GUARDED_BY(mutex_) = nullptr;     // one of queries_
  size_t under_way_ VICINAL_GUARDED_BY(mutex_) = 0;         // queries without an answer
  int starting_ VICINAL_GUARDED_BY(mutex_) = 0;             // threads between deciding and having started something
  bool finished_ VICINAL_GUARDED_BY(mutex_) = false;
  std::optional<End> end_ VICINAL_GUARDED_BY(mutex_);  // no further request is taken
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_SERVICES_QUERY_STREAM_REACTOR_H_
