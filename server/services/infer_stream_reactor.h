// SPDX-License-Identifier: Apache-2.0
// ModelStreamInfer: requests one after another, each with its reply before the next is read. So a stream has at most
// one request in memory, and a client that wants more at a time opens more streams. Owns itself as other reactors do
// (reactors.h).
#ifndef VICINAL_SERVER_SERVICES_INFER_STREAM_REACTOR_H_
#define VICINAL_SERVER_SERVICES_INFER_STREAM_REACTOR_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <optional>

#include "engine/base/mutex.h"
#include "inference/grpc_inference.pb.h"
#include "server/open_inference/open_inference_handler.h"
#include "server/rpc_scope.h"
#include "server/services/received.h"
#include "server/services/send_stall.h"

namespace vicinal::server {

// A request that fails is answered in its reply. What ends the stream: the client, who closes or cancels it, sends no
// request for --upload_ttl or bytes that are none, or reads no reply for --send_timeout; and a draining server, after
// the reply under way.
class InferStreamReactor final
    : public grpc::ServerBidiReactor<Received<inference::ModelInferRequest>, inference::ModelStreamInferResponse> {
 public:
  InferStreamReactor(Core& core, grpc::CallbackServerContext* context, OpenInferenceHandler& handler)
      : core_(core),
        context_(context),
        handler_(handler),
        scope_(core, context, Method::kModelStreamInfer),
        stall_(core, context) {}

  // Call once, after construction.
  void Begin();
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override { scope_.Cancel(); }
  void OnDone() override;

 private:
  // The thread that was called back works on the stream, except while it waits for a request: then others may end it.
  enum class State { kReading, kWorking, kEnded };

  void Answer();
  // On any thread.
  void Answered(const Status& status);
  void Next();
  // The stream begins to be worked on. False: it has ended.
  bool TakeTurn();
  // By the thread that works on the stream.
  void End(const Status& status);
  // By any other thread: now, or after the reply under way.
  void EndSoon(const Status& status);

  Core& core_;
  grpc::CallbackServerContext* const context_;
  OpenInferenceHandler& handler_;
  RpcScope scope_;
  std::optional<Call> call_;  // of the request that is being answered
  Received<inference::ModelInferRequest> received_;
  inference::ModelStreamInferResponse response_;
  SendStall stall_;
  int64_t drain_id_ = 0, silence_id_ = 0;
  bool spoken_ = false;  // the first message has come
  Mutex mutex_;
  State state_ VICINAL_GUARDED_BY(mutex_) = State::kReading;
  std::optional<Status> end_ VICINAL_GUARDED_BY(mutex_);  // after the reply under way
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_SERVICES_INFER_STREAM_REACTOR_H_
