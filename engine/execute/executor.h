// SPDX-License-Identifier: Apache-2.0
// One thread per device that takes requests from its queue and runs them. Requests that were cancelled or have expired
// are answered without being run. Everything that touches the executor's DeviceContext happens on this thread. While no
// request waits, background work (tuning) may use the device, a short lease at a time.
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
  // `device` and `runner` must outlive the executor.
  Executor(Device& device, RequestRunner* runner, Options options);
  // Finishes what is queued, then stops.
  ~Executor();

  // Queues the request. Its `done` is called once, on the executor's thread: with the runner's answer, with CANCELLED
  // or DEADLINE_EXCEEDED if it must not run any more, or with RESOURCE_EXHAUSTED (OUT_OF_MEMORY). With
  // an error of RequestQueue::Push it is not queued: then `done` is never called.
  Status Submit(QueuedRequest request) { return queue_.Push(std::move(request)); }
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

  RequestRunner& runner_;
  const Clock& clock_;
  const std::unique_ptr<DeviceContext> context_;
  RequestQueue queue_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_EXECUTOR_H_
