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
    stall_id_ = core_.stalls.Begin([this] {
      stalled_ = true;
      context_->TryCancel();
    });
    core_.stalls.Pause(stall_id_);
    scope_.AwaitMessage([this](const Status& why) { EndSoon(why); });
    return OkStatus();
  });
  if (!status.ok()) return EndSoon(status);
  StartRead(&request_);
}

void InferStreamReactor::OnReadDone(bool ok) {
  const bool first = !std::exchange(spoken_, true);
  if (first && !scope_.MessageArrived()) return;
  if (!TakeTurn()) return;
  core_.silences.Pause(silence_id_);
  if (!ok) {
    if (context_->IsCancelled()) return End(scope_.WhyCancelled());
    return End(first ? OrOutOfMemory([&] { return scope_.WhyNoMessage(); }) : OkStatus());
  }
  Answer();
}

void InferStreamReactor::Answer() {
  const Status status = OrOutOfMemory([&]() -> Status {
    scope_.About(request_);
    VICINAL_RETURN_IF_ERROR(scope_.Take(request_));
    call_ = scope_.call().ForMessage(core_.clock.Now());
    handler_.ModelInfer(*call_, request_, response_.mutable_infer_response(),
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
    response_.mutable_infer_response()->set_id(request_.id());
    response_.mutable_infer_response()->set_model_name(request_.model_name());
    return OkStatus();
  });
  if (!own.ok()) return End(own);
  core_.stalls.Heard(stall_id_);
  StartWrite(&response_);
}

void InferStreamReactor::OnWriteDone(bool ok) {
  if (!ok) {
    return End(stalled_ ? OrOutOfMemory([&] { return SendStalled(core_.limits.send_timeout); })
                        : scope_.WhyCancelled());
  }
  core_.stalls.Pause(stall_id_);
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
  StartRead(&request_);
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
  // On a worker: Forget waits for a running callback, which may be the caller of this function.
  core_.workers.PostAdmitted([this] {
    core_.drain.Forget(drain_id_);
    core_.silences.Forget(silence_id_);
    core_.stalls.Forget(stall_id_);
    delete this;
  });
}

}  // namespace vicinal::server
