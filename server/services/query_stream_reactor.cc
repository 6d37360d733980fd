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
  Received<v1::InferStreamRequest>* first = nullptr;
  const Status status = OrOutOfMemory([&]() -> Status {
    VICINAL_RETURN_IF_ERROR(scope_.admitted());
    {
      MutexLock lock(&mutex_);
      first = &arriving_.emplace_back().received;
    }
    silence_id_ = core_.silences.Begin([this] {
      EndWith(OrOutOfMemory([&] { return StreamSilent(core_.limits.upload_ttl); }), /*drops_answers=*/true);
    });
    stall_.Begin();
    // After the ids that EndWith needs.
    drain_id_ = core_.drain.OnDrain([this] { EndWith(Drain::Refusal(), /*drops_answers=*/false); });
    scope_.AwaitMessage([this](const Status& why) { EndWith(why, /*drops_answers=*/true); });
    return OkStatus();
  });
  if (!status.ok()) return EndWith(status, /*drops_answers=*/true);
  // Also of a stream that has ended meanwhile: the wait for its message ends with a read.
  StartRead(first);
}

void QueryStreamReactor::OnReadDone(bool ok) {
  const bool first = !std::exchange(spoken_, true);
  if (first && !scope_.MessageArrived()) return;  // the stream has ended
  if (!ok) {
    const Status end = context_->IsCancelled() ? WhyBroken() : OkStatus();
    return EndWith(end, /*drops_answers=*/!end.ok());
  }
  Arrival arrival;
  {
    MutexLock lock(&mutex_);
    arrival = arriving_.front().received.arrival;
  }
  // What came before is answered.
  Status status = scope_.CheckArrival(arrival);
  if (status.ok() && first) status = scope_.TakeStreamPlace();
  if (!status.ok()) return EndWith(status, /*drops_answers=*/false);
  Query* query = nullptr;
  {
    MutexLock lock(&mutex_);
    query = &arriving_.front();
    query->self = arriving_.begin();
    query->bytes = static_cast<int64_t>(arrival.bytes);
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
    const v1::InferStreamRequest& request = query->received.message;
    scope_.About(request);
    query->response.set_request_id(request.request_id());
    query->call = scope_.call().ForMessage(core_.clock.Now(), static_cast<int64_t>(query->received.arrival.bytes));
    query->call->on_bytes = [this, query](int64_t bytes) {
      MutexLock lock(&mutex_);
      query->bytes = bytes;
    };
    VICINAL_RETURN_IF_ERROR(TakeOrder(request));
    VICINAL_ASSIGN_OR_RETURN(query->memory, scope_.Reserve(request));
    handler_.Infer(*query->call, request, &query->response,
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
  if (query->call) scope_.EndRequest(*query->call, own.ok() ? status.code() : own.code());
  const auto answer_bytes = static_cast<int64_t>(query->response.ByteSizeLong());
  // Only the answer waits for the client.
  query->received.message = v1::InferStreamRequest();
  query->memory.Release();
  {
    MutexLock lock(&mutex_);
    query->bytes = answer_bytes;
    if (!own.ok() && (!end_ || !end_->drops_answers)) end_ = End{stall_.ended() ? stall_.Why() : own, true};
  }
  Go(query);
}

void QueryStreamReactor::OnWriteDone(bool ok) {
  std::list<Query> sent;
  {
    MutexLock lock(&mutex_);
    sent.splice(sent.begin(), queries_, std::exchange(sending_, nullptr)->self);
    stall_.Sent();
    if (!ok && !(end_ && end_->drops_answers)) end_ = End{WhyBroken(), true};
    WatchSilence();
  }
  sent.clear();  // gives its part of the share back, which decides whether the next one is read
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
  if (!end_ && arriving_.empty() && HasRoom()) {
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
  Received<v1::InferStreamRequest>* request = nullptr;
  const v1::InferStreamResponse* response = nullptr;
  {
    MutexLock lock(&mutex_);
    if (step == Step::kRead) request = &arriving_.front().received;
    if (step == Step::kWrite) response = &sending_->response;
  }
  if (step == Step::kRead) return StartRead(request);
  stall_.Sending();
  StartWrite(response);
}

void QueryStreamReactor::WatchSilence() {
  if (queries_.empty() && !end_) {
    core_.silences.Heard(silence_id_);
  } else {
    core_.silences.Pause(silence_id_);
  }
}

int64_t QueryStreamReactor::Bytes() const {
  int64_t bytes = 0;
  for (const Query& query : queries_) bytes += query.bytes;
  return bytes;
}

bool QueryStreamReactor::HasRoom() {
  if (queries_.empty()) return true;
  return queries_.size() < kWindow && Bytes() < kWindowBytes &&
         !handler_.stream_shares().HalfFull(scope_.call().principal);
}

void QueryStreamReactor::OnDone() {
  // On a worker: the ends of registrations wait for a running callback, which may be the caller of this function.
  core_.workers.PostAdmitted([this] {
    core_.drain.Forget(drain_id_);
    core_.silences.Forget(silence_id_);
    delete this;
  });
}

}  // namespace vicinal::server
