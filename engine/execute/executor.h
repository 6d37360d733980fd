// SPDX-License-Identifier: Apache-2.0
// One thread per device that runs what is queued, in order. Bounded; drops what has expired or was cancelled before it
// runs. Everything that touches a DeviceContext happens on this thread. While no request waits, background work
// (tuning) may have it, a short lease at a time.
#ifndef VICINAL_ENGINE_EXECUTE_EXECUTOR_H_
#define VICINAL_ENGINE_EXECUTE_EXECUTOR_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "engine/base/clock.h"
#include "engine/base/stats.h"
#include "engine/base/status.h"
#include "engine/base/work_limits.h"
#include "engine/device/device.h"

namespace vicinal {

// What background work asks while it has the executor. Thread-safe.
class Lease {
 public:
  virtual ~Lease() = default;
  // A request waits, or the executor is draining or stopping: return soon. A piece of work (a measured run) during
  // which this became true was disturbed by whoever brought the request.
  virtual bool ShouldStop() const = 0;
};

// Thread-safe.
class Executor {
 public:
  struct Options {
    int64_t max_queue = 1024;  // waiting jobs
    const Clock* clock = nullptr;
    StatsSink* stats = nullptr;
  };
  Executor(Device& device, Options options);
  // Finishes what is queued, then stops.
  ~Executor();

  // Queues `run`; it is called once, on the executor's thread, with OK or with why it must not run (CANCELLED,
  // DEADLINE_EXCEEDED). UNAVAILABLE (reason QUEUE_FULL, or DRAINING after Drain) when not queued: then `run` is never
  // called.
  Status Submit(WorkLimits limits, std::function<void(const Status& admitted, DeviceContext& context)> run);

  // Queues background work: it is called once, on the executor's thread, when no request waits; with OK, or with
  // UNAVAILABLE (DRAINING) once the executor drains or stops. Requests that come meanwhile wait until it returns, so it
  // must be short (one measured run) and ask `lease` between its parts. Not bounded: who submits waits for the last one
  // first.
  void SubmitBackground(std::function<void(const Status& admitted, DeviceContext& context, const Lease& lease)> run);

  // Refuses new work from now on, and returns when what is queued is done, or at `deadline` (false).
  bool Drain(MonotonicTime deadline);

  int64_t queue_depth() const;
  // How long it has run what was submitted, with what runs now; background work is not in it. Never falls.
  double busy_seconds() const;
  // Threads that kernels run on in this executor's context; for PlanRequest.
  int num_threads() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_EXECUTOR_H_
