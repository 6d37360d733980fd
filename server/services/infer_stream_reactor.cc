// SPDX-License-Identifier: Apache-2.0
#include "server/services/infer_stream_reactor.h"

#include <utility>

#include "engine/base/out_of_memory.h"

namespace vicinal::server {

void InferStreamReactor::Begin() {
  const Status status = OrOutOfMemory([&]() -> Status {
    VICINAL_RETURN_IF_ERROR(scope_.admitted());
    drain_id_ = core_.drain.OnDrain([this] { EndSoon(Drain::Refusal()); });
    silence_id_ =
        core_.silences.Begin([this] { EndSoon(OrOutOfMemory([&] { return StreamSilent(core_.limits.upload_ttl); })); });
    stall_.Begin();
    scope_.AwaitMessage([this](const Status& why) { EndSoon(why); });
    return OkStatus();
  });
  if (!status.ok()) return EndSoon(status);
  StartRead(&received_);
}

void InferStreamReactor::OnReadDone(bool ok) {
  const bool first = !std::exchange(spoken_, true);
  if (first && !scope_.MessageArrived()) return;
  if (!TakeTurn()) return;
  core_.silences.Pause(silence_id_);
  if (!ok) return End(context_->IsCancelled() ? scope_.WhyCancelled() : OkStatus());
  Status arrival = scope_.CheckArrival(received_.arrival);
  if (arrival.ok() && first) arrival = scope_.TakeStreamPlace();
  if (!arrival.ok()) return End(arrival);
  Answer();
}

void InferStreamReactor::Answer() {
  const Status status = OrOutOfMemory([&]() -> Status {
    scope_.About(received_.message);
    VICINAL_RETURN_IF_ERROR(scope_.Take(received_.message));
    call_ = scope_.call().ForMessage(core_.clock.Now(), static_cast<int64_t>(received_.arrival.bytes));
    handler_.ModelInfer(*call_, received_.message, response_.mutable_infer_response(),
                        [this](const Status& outcome) { Answered(outcome); });
    return OkStatus();
  });
  if (!status.ok()) Answered(status);
}

void InferStreamReactor::Answered(const Status& status) {
  const Status own = OrOutOfMemory([&]() -> Status {
    VICINAL_RETURN_IF_ERROR(scope_.call().limits.Check(core_.clock));
    if (status.ok()) return OkStatus();
    response_.Clear();
    response_.set_error_message(std::string(status.message()));
    response_.mutable_infer_response()->set_id(received_.message.id());
    response_.mutable_infer_response()->set_model_name(received_.message.model_name());
    return OkStatus();
  });
  if (call_) scope_.EndRequest(*call_, own.ok() ? status.code() : own.code());
  if (!own.ok()) return End(own);
  stall_.Sending();
  StartWrite(&response_);
}

void InferStreamReactor::OnWriteDone(bool ok) {
  if (!ok) return End(stall_.ended() ? stall_.Why() : scope_.WhyCancelled());
  stall_.Sent();
  Next();
}

void InferStreamReactor::Next() {
  call_.reset();
  response_.Clear();
  core_.silences.Heard(silence_id_);
  std::optional<Status> end;
  {
    MutexLock lock(&mutex_);
    end = end_;
    if (!end) state_ = State::kReading;
  }
  if (end) return End(*end);
  StartRead(&received_);
}

bool InferStreamReactor::TakeTurn() {
  MutexLock lock(&mutex_);
  if (state_ == State::kEnded) return false;
  state_ = State::kWorking;
  return true;
}

void InferStreamReactor::End(const Status& status) {
  {
    MutexLock lock(&mutex_);
    state_ = State::kEnded;
  }
  Finish(scope_.Finish(status));
}

void InferStreamReactor::EndSoon(const Status& status) {
  {
    MutexLock lock(&mutex_);
    if (state_ == State::kEnded) return;
    if (state_ == State::kWorking) {
      if (!end_) end_ = status;
      return;
    }
    state_ = State::kEnded;
  }
  Finish(scope_.Finish(status));
}

void InferStreamReactor::OnDone() {
  // On a worker: the ends of registrations wait for a running callback, which may be the caller of this function.
  core_.workers.PostAdmitted([this] {
    core_.drain.Forget(drain_id_);
    core_.silences.Forget(silence_id_);
    delete this;
  });
}

}  // namespace vicinal::server
