// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/executor.h"

#include <deque>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/mutex.h"

namespace vicinal {

struct Executor::Impl final : Lease {
  struct Job {
    WorkLimits limits;
    std::function<void(const Status&, DeviceContext&)> run;
  };
  using Background = std::function<void(const Status&, DeviceContext&, const Lease&)>;

  Impl(Device& device, Options given) : options(given), context(device.CreateContext()) {
    VICINAL_CHECK(options.clock != nullptr);
    if (options.stats == nullptr) options.stats = &StatsSink::Null();
    thread = std::thread([this] { Loop(); });
  }

  ~Impl() override {
    {
      MutexLock lock(&mutex);
      stopping = true;
      wanted.store(true, std::memory_order_relaxed);
    }
    work_came.NotifyAll();
    thread.join();
  }

  bool ShouldStop() const override { return wanted.load(std::memory_order_relaxed); }

  void Loop() {
    Job job;
    Background lease;
    Status admitted;
    while (Next(&job, &lease, &admitted)) {
      if (lease) {
        lease(admitted, *context, *this);
        lease = nullptr;
        continue;
      }
      job.run(job.limits.Check(*options.clock), *context);
      job = Job();  // what the job holds goes before the executor counts as idle
    }
  }

  // Waits for a job, or where none waits for background work; false when stopping and nothing is left.
  bool Next(Job* job, Background* lease, Status* admitted) {
    int64_t depth = 0;
    {
      MutexLock lock(&mutex);
      busy = false;
      if (running_since) busy_seconds += SecondsBetween(*running_since, options.clock->Now());
      running_since.reset();
      if (queue.empty() && background.empty()) became_idle.NotifyAll();
      while (queue.empty() && background.empty() && !stopping) work_came.Wait(&mutex);
      if (queue.empty() && background.empty()) return false;
      busy = true;
      if (queue.empty()) {
        *lease = std::move(background.front());
        background.pop_front();
        *admitted = draining || stopping ? Draining() : OkStatus();
        return true;
      }
      running_since = options.clock->Now();
      *job = std::move(queue.front());
      queue.pop_front();
      depth = static_cast<int64_t>(queue.size());
      wanted.store(depth > 0 || draining || stopping, std::memory_order_relaxed);
    }
    options.stats->QueueDepth(depth);
    return true;
  }

  static Status Draining() {
    return Unavailable("DRAINING", "this server is shutting down and takes no new requests; retry on another",
                       std::chrono::seconds(1));
  }

  Options options;
  std::unique_ptr<DeviceContext> context;
  mutable Mutex mutex;
  CondVar work_came, became_idle;
  std::deque<Job> queue VICINAL_GUARDED_BY(mutex);
  std::deque<Background> background VICINAL_GUARDED_BY(mutex);
  bool busy VICINAL_GUARDED_BY(mutex) = false;
  std::optional<MonotonicTime> running_since VICINAL_GUARDED_BY(mutex);  // of a request's job
  double busy_seconds VICINAL_GUARDED_BY(mutex) = 0.0;                   // of those that ended
  bool draining VICINAL_GUARDED_BY(mutex) = false;
  bool stopping VICINAL_GUARDED_BY(mutex) = false;
  // Requests wait, or it drains or stops: written under the mutex, read without it.
  std::atomic<bool> wanted{false};
  std::thread thread;  // last: it uses all of the above
};

Executor::Executor(Device& device, Options options) : impl_(std::make_unique<Impl>(device, options)) {}
Executor::~Executor() = default;

Status Executor::Submit(WorkLimits limits, std::function<void(const Status& admitted, DeviceContext& context)> run) {
  int64_t depth = 0;
  {
    MutexLock lock(&impl_->mutex);
    if (impl_->draining || impl_->stopping) {
      return Impl::Draining();
    }
    depth = static_cast<int64_t>(impl_->queue.size()) + 1;
    if (depth > impl_->options.max_queue) {
      return Unavailable(
          "QUEUE_FULL",
          absl::StrCat(impl_->options.max_queue, " requests wait already, as many as may (--max_queue); retry later"),
          std::chrono::milliseconds(100));
    }
    impl_->queue.push_back({std::move(limits), std::move(run)});
    impl_->wanted.store(true, std::memory_order_relaxed);
  }
  impl_->work_came.NotifyOne();
  impl_->options.stats->QueueDepth(depth);
  return OkStatus();
}

void Executor::SubmitBackground(
    std::function<void(const Status& admitted, DeviceContext& context, const Lease& lease)> run) {
  {
    MutexLock lock(&impl_->mutex);
    impl_->background.push_back(std::move(run));
  }
  impl_->work_came.NotifyOne();
}

bool Executor::Drain(MonotonicTime deadline) {
  MutexLock lock(&impl_->mutex);
  impl_->draining = true;
  impl_->wanted.store(true, std::memory_order_relaxed);
  while (impl_->busy || !impl_->queue.empty() || !impl_->background.empty()) {
    // The deadline is in the injected clock's time, the wait in the machine's.
    const Nanoseconds left = deadline - impl_->options.clock->Now();
    if (left <= Nanoseconds::zero()) return false;
    impl_->became_idle.WaitUntil(&impl_->mutex, std::chrono::steady_clock::now() + left);
  }
  return true;
}

int64_t Executor::queue_depth() const {
  MutexLock lock(&impl_->mutex);
  return static_cast<int64_t>(impl_->queue.size());
}

double Executor::busy_seconds() const {
  MutexLock lock(&impl_->mutex);
  const auto& since = impl_->running_since;
  return impl_->busy_seconds + (since ? SecondsBetween(*since, impl_->options.clock->Now()) : 0.0);
}

int Executor::num_threads() const {
  const ThreadPool* pool = impl_->context->thread_pool();
  return pool != nullptr ? pool->num_threads() : 1;
}

}  // namespace vicinal
