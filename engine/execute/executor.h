// SPDX-License-Identifier: Apache-2.0
// One thread per device that takes requests from its queue and runs them, several in one run where they want the same.
// Requests that were cancelled or have expired are answered without being run. Everything that touches the executor's
// DeviceContext happens on this thread. While no request waits, background work (tuning) may use the device, a short
// lease at a time.
//
// A second thread, with a context of its own, runs small requests beside long runs for other graphs and models
// (RequestQueue::NextSmall), where the device has such contexts.
#ifndef VICINAL_ENGINE_EXECUTE_EXECUTOR_H_
#define VICINAL_ENGINE_EXECUTE_EXECUTOR_H_

#include <cstdint>
#include <memory>
#include <thread>

#include "engine/base/clock.h"
#include "engine/base/stats.h"
#include "engine/base/status.h"
#include "engine/device/device.h"
#include "engine/execute/queued_request.h"
#include "engine/execute/request_queue.h"
#include "engine/execute/request_runner.h"

namespace vicinal {

// Thread-safe.
class Executor {
 public:
  using Options = RequestQueue::Options;
  // `device` and the runners must outlive the executor. `side_runner`: called on the second thread; null: there is
  // none.
  Executor(Device& device, RequestRunner* runner, Options options, RequestRunner* side_runner = nullptr);
  // Finishes what is queued, then stops.
  ~Executor();

  // Queues the request. Its `done` is called once, on one of the executor's threads: with the runner's answer, with
  // CANCELLED or DEADLINE_EXCEEDED if it must not run any more, or with RESOURCE_EXHAUSTED (OUT_OF_MEMORY). With an
  // error of RequestQueue::Push it is not queued: then `done` is never called. Nothing that the request held is held
  // any more when `done` is called: who has the answer may delete its graph, and has the memory.
  Status Submit(QueuedRequest request) { return queue_.Push(std::move(request)); }
  // The error that Submit would give now; see RequestQueue::Check.
  Status Check(const QueuedRequest& request) const { return queue_.Check(request); }
  // Submits and blocks until the answer is there; request.done is not used. Not on the executor's thread.
  StatusOr<InferenceResult> SubmitAndWait(QueuedRequest request);
  // See BackgroundWork. The number is not bounded: callers wait for their previous work before they submit more.
  void SubmitBackground(BackgroundWork work) { queue_.PushBackground(std::move(work)); }

  // Refuses new work from now on, and returns when what is queued is done, or at `deadline` (false).
  bool Drain(MonotonicTime deadline) { return queue_.Drain(deadline); }

  // True from Drain on.
  bool draining() const { return queue_.Ending(); }

  int64_t queue_depth() const { return queue_.depth(); }
  // How long it has been busy with requests, the one that runs now included; background work does not count. Never
  // falls.
  double busy_seconds() const { return queue_.busy_seconds(); }
  QueueSnapshot Snapshot() const { return queue_.Snapshot(); }
  // Threads that kernels run on in this executor's context; for PlanRequest.
  int num_threads() const;

 private:
  void Loop();
  void SideLoop(RequestRunner* runner);
  // Runs a turn's requests and answers them. Returns the seconds that their run took, without building the plan.
  struct Ran {
    double seconds = 0.0;
    bool finished = false;  // false: nothing was learnt, or, if `expired`, that it takes longer
    bool expired = false;
  };
  Ran Answer(RequestQueue::Turn* turn, RequestRunner* runner, DeviceContext* context) const;
  // Answers the turn's request with the reason why it must not run.
  static void Refuse(RequestQueue::Turn* turn);
  // Lets go of all that the request holds but its callback.
  static void Release(QueuedRequest* request);

  RequestRunner& runner_;
  const Clock& clock_;
  const std::unique_ptr<DeviceContext> context_;
  RequestQueue queue_;
  const std::unique_ptr<DeviceContext> side_context_;  // null: there is no second thread
  std::thread thread_, side_thread_;                   // last: they use all of the above
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_EXECUTOR_H_
