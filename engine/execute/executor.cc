// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/executor.h"

#include <utility>
#include <variant>

#include "engine/base/out_of_memory.h"
#include "engine/execute/awaited.h"

namespace vicinal {

Executor::Executor(Device& device, RequestRunner* runner, Options options)
    : runner_(*runner), clock_(*options.clock), context_(device.CreateContext()), queue_(options), thread_([this] {
        Loop();
      }) {}

Executor::~Executor() {
  queue_.Stop();
  thread_.join();
}

void Executor::Loop() {
  // A turn ends, with all that its work holds, before the next one is asked for.
  while (std::optional<RequestQueue::Turn> turn = queue_.Next()) {
    if (const auto* background = std::get_if<BackgroundWork>(&turn->work)) {
      background->run(turn->admitted, *context_, queue_);
      continue;
    }
    const QueuedRequest& request = std::get<QueuedRequest>(turn->work);
    if (!turn->admitted.ok()) {
      request.done(turn->admitted);
    } else {
      const MonotonicTime begin = clock_.Now();
      StatusOr<InferenceResult> result = OrOutOfMemory([&] { return runner_.Run(request, *context_); });
      const double seconds = SecondsBetween(begin, clock_.Now());
      if (result.ok()) {
        queue_.Measured(seconds - result->timing.plan_seconds, true);
      } else if (result.status().code() == StatusCode::kDeadlineExceeded) {
        queue_.Measured(seconds, false);
      }
      request.done(std::move(result));
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
