// SPDX-License-Identifier: Apache-2.0
// Whatever happens changes the state under the lock and then calls Go, which starts what is due: a read, a write, or
// the end. The end is due only when no query waits for its answer, no write is under way, and no other thread is about
// to start something (starting_): until then nobody frees the stream.
#include "server/services/query_stream_reactor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/out_of_memory.h"
#include "server/errors.h"

namespace vicinal::server {

void QueryStreamReactor::Begin() {
  v1::InferStreamRequest* first = nullptr;
  const Status status = OrOutOfMemory([&]() -> Status {
    VICINAL_RETURN_IF_ERROR(scope_.admitted());
    {
      MutexLock lock(&mutex_);
      first = &arriving_.emplace_back().request;
    }
    silence_id_ = core_.silences.Begin([this] {
      EndWith(OrOutOfMemory([&] { return StreamSilent(core_.limits.upload_ttl); }), /*drops_answers=*/true);
    });
    stall_id_ = core_.stalls.Begin([this] {
      {
        MutexLock lock(&mutex_);
        stalled_ = true;
      }
      context_->TryCancel();
    });
    core_.stalls.Pause(stall_id_);
    // After the ids that EndWith needs.
    drain_id_ = core_.drain.OnDrain([this] { EndWith(Drain::Refusal(), /*drops_answers=*/false); });
    scope_.AwaitMessage([this](const Status& why) { EndWith(why, /*drops_answers=*/true); });
    return OkStatus();
  });
  if (!status.ok()) return EndWith(status, /*drops_answers=*/true);
  // Also of a stream that has ended meanwhile: the wait for its message ends with a read.
  StartRead(first);
}

Status QueryStreamReactor::WhyBroken() {
  return stalled_ ? OrOutOfMemory([&] { return SendStalled(core_.limits.send_timeout); }) : scope_.WhyCancelled();
}

void QueryStreamReactor::OnReadDone(bool ok) {
  const bool first = !std::exchange(spoken_, true);
  if (first && !scope_.MessageArrived()) return;  // the stream has ended
  if (!ok) {
    Status end;
    if (context_->IsCancelled()) {
      MutexLock lock(&mutex_);
      end = WhyBroken();
    } else if (first) {
      end = OrOutOfMemory([&] { return scope_.WhyNoMessage(); });
    }
    return EndWith(end, /*drops_answers=*/!end.ok());
  }
  Query* query = nullptr;
  {
    MutexLock lock(&mutex_);
    query = &arriving_.front();
    query->self = arriving_.begin();
    queries_.splice(queries_.end(), arriving_);
    ++under_way_;
    ++starting_;  // nobody frees the stream before the Go below
    WatchSilence();
  }
  Answer(query);
  // The next one is read while this one is computed.
  Go(nullptr, /*started=*/true);
}

Status QueryStreamReactor::TakeOrder(const v1::InferStreamRequest& request) {
  const v1::AnswerOrder asked = request.order();
  if (asked == v1::ANSWER_ORDER_UNSPECIFIED) return OkStatus();
  if (!v1::AnswerOrder_IsValid(asked)) {
    return InvalidArgument("BAD_ORDER", "order", absl::StrCat("order is ", asked, ", which this server does not know"));
  }
  MutexLock lock(&mutex_);
  if (!order_) order_ = asked;
  if (*order_ == asked) return OkStatus();
  return InvalidArgument("BAD_ORDER", "order",
                         "another order than the stream's; set it in the first request, and the same or none later");
}

void QueryStreamReactor::Answer(Query* query) {
  const Status status = OrOutOfMemory([&]() -> Status {
    scope_.About(query->request);
    query->response.set_request_id(query->request.request_id());
    query->call = scope_.call().ForMessage(core_.clock.Now());
    VICINAL_RETURN_IF_ERROR(TakeOrder(query->request));
    VICINAL_ASSIGN_OR_RETURN(query->memory, scope_.Reserve(query->request));
    {
      MutexLock lock(&mutex_);
      query->bytes = query->request.ByteSizeLong();
    }
    handler_.Infer(*query->call, query->request, &query->response,
                   [this, query](const Status& outcome) { Answered(query, outcome); });
    return OkStatus();
  });
  if (!status.ok()) Answered(query, status);
}

void QueryStreamReactor::Answered(Query* query, const Status& status) {
  const Status own = OrOutOfMemory([&]() -> Status {
    VICINAL_RETURN_IF_ERROR(scope_.call().limits.Check(core_.clock));
    if (!status.ok()) *query->response.mutable_error() = ToDetails(status);
    return OkStatus();
  });
  const size_t answer_bytes = query->response.ByteSizeLong();
  {
    MutexLock lock(&mutex_);
    query->bytes += answer_bytes;
    if (!own.ok() && (!end_ || !end_->drops_answers)) end_ = End{stalled_ ? WhyBroken() : own, true};
  }
  Go(query);
}

void QueryStreamReactor::OnWriteDone(bool ok) {
  std::list<Query> sent;
  {
    MutexLock lock(&mutex_);
    sent.splice(sent.begin(), queries_, std::exchange(sending_, nullptr)->self);
    core_.stalls.Pause(stall_id_);
    if (!ok && !(end_ && end_->drops_answers)) end_ = End{WhyBroken(), true};
    WatchSilence();
  }
  if (!ok) scope_.Cancel();
  Go(nullptr);
}

void QueryStreamReactor::EndWith(const Status& status, bool drops_answers) {
  {
    MutexLock lock(&mutex_);
    // What must not wait for answers goes before what does.
    if (!end_ || (drops_answers && !end_->drops_answers)) end_ = End{status, drops_answers};
    WatchSilence();
  }
  if (drops_answers) scope_.Cancel();
  Go(nullptr);
}

void QueryStreamReactor::Go(Query* answered, bool started) {
  mutex_.Lock();
  if (started) --starting_;
  if (answered != nullptr) {
    --under_way_;
    answered->answered = true;
    answered_.push_back(answered);
  }
  Step step = Next();
  while (step == Step::kRead || step == Step::kWrite) {
    ++starting_;
    mutex_.Unlock();
    Start(step);
    mutex_.Lock();
    --starting_;
    step = Next();
  }
  const Status status = step == Step::kFinish ? end_->status : OkStatus();
  mutex_.Unlock();
  if (step == Step::kFinish) Finish(scope_.Finish(status));
}

QueryStreamReactor::Step QueryStreamReactor::Next() {
  if (finished_) return Step::kNothing;
  const bool drops = end_ && end_->drops_answers;
  if (sending_ == nullptr && !drops && !answered_.empty()) {
    const bool any = order_ == v1::ANSWER_ORDER_AS_COMPLETED;
    Query* const next = any ? answered_.front() : &queries_.front();
    if (next->answered) {
      answered_.erase(std::find(answered_.begin(), answered_.end(), next));
      sending_ = next;
      return Step::kWrite;
    }
  }
  if (!end_ && arriving_.empty() && queries_.size() < kWindow && Bytes() < kWindowBytes) {
    arriving_.emplace_back();
    return Step::kRead;
  }
  if (end_ && sending_ == nullptr && under_way_ == 0 && starting_ == 0 && (drops || queries_.empty())) {
    finished_ = true;
    return Step::kFinish;
  }
  return Step::kNothing;
}

void QueryStreamReactor::Start(Step step) {
  v1::InferStreamRequest* request = nullptr;
  const v1::InferStreamResponse* response = nullptr;
  {
    MutexLock lock(&mutex_);
    if (step == Step::kRead) request = &arriving_.front().request;
    if (step == Step::kWrite) response = &sending_->response;
  }
  if (step == Step::kRead) return StartRead(request);
  core_.stalls.Heard(stall_id_);
  StartWrite(response);
}

void QueryStreamReactor::WatchSilence() {
  if (queries_.empty() && !end_) {
    core_.silences.Heard(silence_id_);
  } else {
    core_.silences.Pause(silence_id_);
  }
}

size_t QueryStreamReactor::Bytes() const {
  size_t bytes = 0;
  for (const Query& query : queries_) bytes += query.bytes;
  return bytes;
}

void QueryStreamReactor::OnDone() {
  // On a worker: Forget waits for a running callback, which may be the caller of this function.
  core_.workers.PostAdmitted([this] {
    core_.drain.Forget(drain_id_);
    core_.silences.Forget(silence_id_);
    core_.stalls.Forget(stall_id_);
    delete this;
  });
}

}  // namespace vicinal::server
