// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/executor.h"

#include <utility>
#include <variant>
#include <vector>

#include "engine/base/out_of_memory.h"
#include "engine/execute/awaited.h"

namespace vicinal {

Executor::Executor(Device& device, RequestRunner* runner, Options options, RequestRunner* side_runner)
    : runner_(*runner),
      clock_(*options.clock),
      context_(device.CreateContext()),
      queue_(options),
      side_context_(side_runner != nullptr ? device.CreateSmallContext() : nullptr),
      thread_([this] { Loop(); }) {
  if (side_context_ != nullptr) side_thread_ = std::thread([this, side_runner] { SideLoop(side_runner); });
}

Executor::~Executor() {
  queue_.Stop();
  thread_.join();
  if (side_thread_.joinable()) side_thread_.join();
}

Executor::Ran Executor::Answer(RequestQueue::Turn* turn, RequestRunner* runner, DeviceContext* context) const {
  std::vector<const QueuedRequest*> requests = {&std::get<QueuedRequest>(turn->work)};
  for (const QueuedRequest& request : turn->company) requests.push_back(&request);
  const MonotonicTime begin = clock_.Now();
  std::vector<StatusOr<InferenceResult>> answers;
  const Status ran = OrOutOfMemory([&] {
    answers = runner->RunTogether(requests, *context);
    return OkStatus();
  });
  if (!ran.ok()) answers.assign(requests.size(), ran);
  Ran result;
  result.seconds = SecondsBetween(begin, clock_.Now());
  for (const StatusOr<InferenceResult>& answer : answers) {
    if (answer.ok() && !result.finished) {
      result.finished = true;
      result.seconds -= answer->timing.plan_seconds;
    }
    result.expired = result.expired || answer.status().code() == StatusCode::kDeadlineExceeded;
  }
  Release(&std::get<QueuedRequest>(turn->work));
  for (QueuedRequest& request : turn->company) Release(&request);
  for (size_t i = 0; i < requests.size(); ++i) requests[i]->done(std::move(answers[i]));
  return result;
}

void Executor::Release(QueuedRequest* request) {
  InferenceCallback done = std::move(request->done);
  *request = QueuedRequest();
  request->done = std::move(done);
}

void Executor::Refuse(RequestQueue::Turn* turn) {
  auto& request = std::get<QueuedRequest>(turn->work);
  Release(&request);
  request.done(turn->admitted);
}

void Executor::Loop() {
  // A turn ends, with all that its work holds, before the next one is asked for.
  while (std::optional<RequestQueue::Turn> turn = queue_.Next()) {
    if (const auto* background = std::get_if<BackgroundWork>(&turn->work)) {
      background->run(turn->admitted, *context_, queue_);
    } else if (!turn->admitted.ok()) {
      Refuse(&*turn);
    } else {
      const Ran ran = Answer(&*turn, &runner_, context_.get());
      if (ran.finished || ran.expired) queue_.Measured(ran.seconds, ran.finished);
    }
  }
}

void Executor::SideLoop(RequestRunner* runner) {
  while (std::optional<RequestQueue::Turn> turn = queue_.NextSmall()) {
    if (!turn->admitted.ok()) {
      Refuse(&*turn);
    } else {
      const Ran ran = Answer(&*turn, runner, side_context_.get());
      if (ran.finished || ran.expired) queue_.MeasuredSmall(ran.seconds);
    }
  }
}

StatusOr<InferenceResult> Executor::SubmitAndWait(QueuedRequest request) {
  Awaited<StatusOr<InferenceResult>> answer;
  request.done = [&answer](StatusOr<InferenceResult> result) { answer.Set(std::move(result)); };
  VICINAL_RETURN_IF_ERROR(Submit(std::move(request)));
  return answer.Take();
}

int Executor::num_threads() const {
  const ThreadPool* pool = context_->thread_pool();
  return pool != nullptr ? pool->num_threads() : 1;
}

}  // namespace vicinal
