// SPDX-License-Identifier: Apache-2.0
// Uploads as calls: a stream of messages, a finish, and perhaps a wait for what the upload becomes. Owns itself as
// other reactors do (reactors.h).
#ifndef VICINAL_SERVER_SERVICES_UPLOAD_REACTOR_H_
#define VICINAL_SERVER_SERVICES_UPLOAD_REACTOR_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <utility>

#include "engine/base/mutex.h"
#include "engine/base/out_of_memory.h"
#include "server/handlers/upload_stream.h"
#include "server/rpc_scope.h"
#include "server/services/received.h"

namespace vicinal::server {

// Chunks in order, one in memory at a time; finish runs on a worker, and what it waits for occupies no thread. A
// draining server ends the stream unless it is finishing, because received data is lost with the process anyway; it
// also ends a wait. A client that is silent for --upload_ttl ends the stream, too.
template <class Request, class Response>
class UploadReactor final : public grpc::ServerReadReactor<Received<Request>> {
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
      drain_id_ = core_.drain.OnDrain([this] {
        EndUnlessFinishing(Drain::Refusal());
        EndWait(Drain::Refusal());
      });
      silence_id_ = core_.silences.Begin([this] { EndUnlessFinishing(Silent()); });
      scope_.AwaitMessage([this](const Status& why) { Complete(why); });
      return OkStatus();
    });
    if (!status.ok()) return Complete(status);
    this->StartRead(&received_);
  }
  void OnReadDone(bool ok) override {
    if (!std::exchange(spoken_, true) && !scope_.MessageArrived()) return;
    if (closing_) return StartToFinish();
    if (!ok) return End(OrOutOfMemory([&] { return Close(); }));
    core_.silences.Heard(silence_id_);
    const StatusOr<UploadNext> next = OrOutOfMemory([&]() -> StatusOr<UploadNext> {
      VICINAL_RETURN_IF_ERROR(scope_.CheckArrival(received_.arrival));
      VICINAL_RETURN_IF_ERROR(scope_.CheckSize(received_.arrival.bytes));
      const Request& request = received_.message;
      const bool first = !stream_->begun();
      if (first) scope_.About(request);
      StatusOr<UploadNext> taken = stream_->Take(request);
      if (first && stream_->begun()) scope_.About(stream_->Describe());
      return taken;
    });
    if (!next.ok()) return End(next.status());
    closing_ = *next == UploadNext::kFinish;
    // Frees the message's other memory while waiting for the next chunk.
    if (received_.message.SpaceUsedLong() > 2 * static_cast<size_t>(core_.limits.max_chunk_bytes))
      received_.message = Request();
    // After `finish` the client closes its side. A reply that came before that would make gRPC reset the stream, and a
    // proxy in between may then drop the reply.
    this->StartRead(&received_);
  }
  void OnCancel() override {
    scope_.Cancel();
    EndWait(scope_.WhyCancelled());
  }
  void OnDone() override {
    // On a worker: Forget and the subscription wait for running callbacks, which may be the caller of this function.
    core_.workers.PostAdmitted([this] {
      {
        MutexLock lock(&mutex_);
        while (beginning_wait_) wait_began_.Wait(&mutex_);
      }
      subscription_.reset();
      core_.drain.Forget(drain_id_);
      core_.silences.Forget(silence_id_);
      delete this;
    });
  }

 private:
  // `finish` has come, and the client has closed its side.
  void StartToFinish() {
    {
      MutexLock lock(&mutex_);
      if (ended_) return;
      finishing_ = true;
    }
    const Status posted = OrOutOfMemory([this] { return core_.workers.Post([this] { Conclude(); }); });
    if (!posted.ok()) End(posted);
  }
  // The client has closed its side.
  Status Close() { return context_->IsCancelled() ? scope_.WhyCancelled() : Told(stream_->End(response_)); }
  // On a worker.
  void Conclude() {
    const Status status = OrOutOfMemory([this] { return Told(stream_->Finish(scope_.call(), response_)); });
    if (!status.ok() || !stream_->waits()) return End(status);
    stream_->Leave();
    BeginWait();
  }
  // Another thread may end the call as soon as it is waiting. Until this function has returned, nothing is destroyed.
  void BeginWait() {
    {
      MutexLock lock(&mutex_);
      if (ended_) return;
      beginning_wait_ = true;
    }
    const Status status = OrOutOfMemory([this]() -> Status {
      subscription_ = stream_->Watch([this] { LookAgain(); });
      {
        MutexLock lock(&mutex_);
        waiting_ = true;
      }
      LookAgain();
      // The deadline or the drain may have come before `waiting_` was set.
      if (core_.drain.draining()) EndWait(Drain::Refusal());
      const Status limits = scope_.call().limits.Check(core_.clock);
      if (!limits.ok()) EndWait(limits);
      return OkStatus();
    });
    if (!status.ok()) Complete(status);
    MutexLock lock(&mutex_);
    beginning_wait_ = false;
    wait_began_.NotifyAll();
  }
  // On any thread.
  void LookAgain() {
    Response present;
    const StatusOr<bool> over = OrOutOfMemory([&]() -> StatusOr<bool> {
      {
        MutexLock lock(&mutex_);
        if (!waiting_ || ended_) return false;
        present = *response_;
      }
      return stream_->Look(&present);
    });
    if (!over.ok()) return Complete(over.status());
    if (!*over) return;
    {
      MutexLock lock(&mutex_);
      if (ended_) return;
      ended_ = true;
      response_->Swap(&present);
    }
    this->Finish(scope_.Finish(OkStatus()));
  }
  // Ends the call if it waits.
  void EndWait(const Status& why) {
    {
      MutexLock lock(&mutex_);
      if (!waiting_) return;
    }
    Complete(OrOutOfMemory([&] { return WaitEnded(why); }));
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
  Received<Request> received_;
  std::unique_ptr<Stream> stream_;
  int64_t drain_id_ = 0, silence_id_ = 0;
  bool spoken_ = false;   // the first message has come
  bool closing_ = false;  // `finish` has come
  Mutex mutex_;
  bool finishing_ VICINAL_GUARDED_BY(mutex_) = false;
  bool ended_ VICINAL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Subscription> subscription_;  // while waiting; set and destroyed on workers
  CondVar wait_began_;
  bool beginning_wait_ VICINAL_GUARDED_BY(mutex_) = false;
  bool waiting_ VICINAL_GUARDED_BY(mutex_) = false;
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_SERVICES_UPLOAD_REACTOR_H_
