// SPDX-License-Identifier: Apache-2.0
// Workers sleep on a condition variable and are woken by a new epoch. Each thread has a range of the tasks, the same in
// every loop with that number of tasks, and takes them in order; a thread that has finished its own takes from the ends
// of the others'. So a thread mostly reads or overwrites in the next loop of a plan what it wrote itself, in its own
// core's cache, and neighbouring rows, which gather similar rows, belong to one core. The caller waits only for workers
// that have joined the loop: one that the system wakes late finds it closed. A plan's loops follow each other within
// microseconds, while waking a sleeper costs 5 to 50. Therefore a worker polls for the next loop for a moment before it
// sleeps, and the caller polls for the last worker.
//
// Only the caller calls should_stop; workers check one flag before each task.
//
// Pinned workers: the system often wakes a sleeper on the core of the thread that wakes it, and takes milliseconds to
// separate them, longer than most requests run. (Linux 6.18, two cores, loops of 0.2 ms on two threads after 50 ms of
// sleep: in half of the trials the first 3 to 6 ms ran at the speed of one thread; with pinned workers never.) The
// caller stays where the system puts it; a worker on the same core moves to the core that the caller left.

#include "engine/base/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/mutex.h"

namespace vicinal {
namespace {

// Duration of polling. Longer keeps cores busy that others could use; shorter than the gap between two loops of a plan
// has no effect.
constexpr std::chrono::microseconds kWatch{50};

inline void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

// Polls until done() or for kWatch. Reads the clock every 32 iterations.
template <class Done>
void Watch(const Done& done) {
  const auto end = std::chrono::steady_clock::now() + kWatch;
  do {
    for (int look = 0; look < 32; ++look) {
      if (done()) return;
      Pause();
    }
  } while (std::chrono::steady_clock::now() < end);
}

// A thread's own tasks that have not started: [begin, end) in one word, so that takers from the front and from the back
// never take the same one.
class alignas(64) Share {
 public:
  void Set(int64_t begin, int64_t end) {
    ends_.store(Pack(static_cast<uint64_t>(begin), static_cast<uint64_t>(end)), std::memory_order_relaxed);
  }
  // -1 if there are none.
  int64_t TakeFirst() {
    return Take([](uint64_t begin, uint64_t end) { return Pack(begin + 1, end); }, false);
  }
  int64_t TakeLast() {
    return Take([](uint64_t begin, uint64_t end) { return Pack(begin, end - 1); }, true);
  }

 private:
  static uint64_t Pack(uint64_t begin, uint64_t end) { return begin << 32 | end; }

  template <class Rest>
  int64_t Take(Rest rest, bool last) {
    uint64_t ends = ends_.load(std::memory_order_relaxed);
    while (true) {
      const uint64_t begin = ends >> 32, end = ends & 0xffffffffU;
      if (begin >= end) return -1;
      if (ends_.compare_exchange_weak(ends, rest(begin, end), std::memory_order_relaxed)) {
        return static_cast<int64_t>(last ? end - 1 : begin);
      }
    }
  }

  std::atomic<uint64_t> ends_{0};
};

// The scope of this thread, if any.
thread_local ThreadPool::StopScope* scope_of_thread = nullptr;

}  // namespace

struct ThreadPool::Impl {
  // Callers take turns: one loop at a time.
  Mutex turn;

  Mutex mutex;
  CondVar wake;  // a new epoch, or stop
  CondVar done;  // the last worker left the loop
  uint64_t epoch VICINAL_GUARDED_BY(mutex) = 0;
  bool open VICINAL_GUARDED_BY(mutex) = false;  // the loop of this epoch may be joined
  int joined VICINAL_GUARDED_BY(mutex) = 0;     // workers inside it
  bool stop VICINAL_GUARDED_BY(mutex) = false;
  Thunk thunk VICINAL_GUARDED_BY(mutex) = nullptr;
  const void* body VICINAL_GUARDED_BY(mutex) = nullptr;

  std::vector<Share> shares;         // by thread
  std::atomic<bool> stopped{false};  // the current loop
  // Read by Watch without the mutex: copies of epoch (or stop: all ones) and joined, written under it.
  std::atomic<uint64_t> published{0};
  std::atomic<int> inside{0};
  std::vector<std::thread> workers;
  // Used by the caller whose turn it is. Empty: the system places threads.
  std::vector<int> core_of_worker;
  int core_of_caller = -1;

  void BindWorker(size_t worker) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core_of_worker[worker], &set);
    // Fails if the process's cores were changed in the meantime: the system has then chosen already.
    (void)pthread_setaffinity_np(workers[worker].native_handle(), sizeof(set), &set);
  }

  void TakeCores(const std::vector<int>& cores) {
    if (cores.empty()) return;
    core_of_caller = cores[0];
    core_of_worker.assign(cores.begin() + 1, cores.end());
    for (size_t worker = 0; worker < workers.size(); ++worker) BindWorker(worker);
  }

  void KeepApart() {
    if (core_of_worker.empty()) return;
    const int here = sched_getcpu();
    if (here == core_of_caller) return;
    const auto found = std::find(core_of_worker.begin(), core_of_worker.end(), here);
    if (found == core_of_worker.end()) return;
    std::swap(*found, core_of_caller);
    BindWorker(found - core_of_worker.begin());
  }

  void Divide(int64_t tasks) {
    const int64_t threads = static_cast<int64_t>(shares.size());
    for (int64_t t = 0; t < threads; ++t) shares[t].Set(tasks * t / threads, tasks * (t + 1) / threads);
  }

  // The next task for a thread, or -1: its own first, then the last of another's.
  int64_t Next(size_t thread) {
    int64_t task = shares[thread].TakeFirst();
    for (size_t other = 1; task < 0 && other < shares.size(); ++other) {
      task = shares[(thread + other) % shares.size()].TakeLast();
    }
    return task;
  }

  void Drain(Thunk run, const void* with, int thread) {
    while (!stopped.load(std::memory_order_relaxed)) {
      const int64_t task = Next(static_cast<size_t>(thread));
      if (task < 0) return;
      run(with, task, thread);
    }
  }

  // The caller's share of a loop that may be stopped.
  void DrainWhileWanted(StopScope* scope, Thunk run, const void* with) {
    while (!scope->Ask()) {
      const int64_t task = Next(0);
      if (task < 0) return;
      run(with, task, 0);
    }
    stopped.store(true, std::memory_order_relaxed);
  }

  void Work(int thread) {
    uint64_t seen = 0;
    while (true) {
      Thunk run;
      const void* with;
      if (seen != 0) Watch([&] { return published.load(std::memory_order_relaxed) != seen; });
      {
        MutexLock lock(&mutex);
        while (!stop && epoch == seen) wake.Wait(&mutex);
        if (stop) return;
        seen = epoch;
        if (!open) continue;
        inside.store(++joined, std::memory_order_relaxed);
        run = thunk;
        with = body;
      }
      Drain(run, with, thread);
      MutexLock lock(&mutex);
      inside.store(--joined, std::memory_order_relaxed);
      if (joined == 0) done.NotifyOne();
    }
  }
};

ThreadPool::ThreadPool(int num_threads, const std::vector<int>& cores) : impl_(std::make_unique<Impl>()) {
  VICINAL_CHECK(num_threads >= 1 && (cores.empty() || cores.size() == static_cast<size_t>(num_threads)));
  impl_->shares = std::vector<Share>(static_cast<size_t>(num_threads));
  for (int thread = 1; thread < num_threads; ++thread) {
    impl_->workers.emplace_back([impl = impl_.get(), thread] { impl->Work(thread); });
  }
  impl_->TakeCores(cores);
}

ThreadPool::~ThreadPool() {
  {
    MutexLock lock(&impl_->mutex);
    impl_->stop = true;
    impl_->published.store(~uint64_t{0}, std::memory_order_relaxed);
    impl_->wake.NotifyAll();
  }
  for (std::thread& worker : impl_->workers) worker.join();
}

int ThreadPool::num_threads() const { return static_cast<int>(impl_->workers.size()) + 1; }

ThreadPool::StopScope::StopScope(const ThreadPool* pool, const std::function<bool()>& should_stop)
    : pool_(pool), should_stop_(should_stop) {
  VICINAL_CHECK(scope_of_thread == nullptr);
  scope_of_thread = this;
}

ThreadPool::StopScope::~StopScope() { scope_of_thread = nullptr; }

ThreadPool::StopScope* ThreadPool::Scope() const {
  StopScope* const scope = scope_of_thread;
  return scope != nullptr && scope->pool_ == this ? scope : nullptr;
}

bool ThreadPool::ShouldStop() const {
  // Workers have no scope: their caller asks.
  StopScope* const scope = Scope();
  return scope != nullptr ? scope->Ask() : impl_->stopped.load(std::memory_order_relaxed);
}

void ThreadPool::Run(int64_t num_tasks, Thunk thunk, const void* body) {
  if (num_tasks <= 0) return;
  VICINAL_CHECK(num_tasks < int64_t{1} << 32);
  StopScope* const scope = Scope();
  // Before a worker can begin a task.
  if (scope != nullptr && scope->Ask()) return;
  MutexLock turn(&impl_->turn);
  impl_->stopped.store(false, std::memory_order_relaxed);
  if (impl_->workers.empty() || num_tasks == 1) {
    for (int64_t task = 0; task < num_tasks && (scope == nullptr || !scope->Ask()); ++task) thunk(body, task, 0);
    return;
  }
  impl_->KeepApart();
  {
    MutexLock lock(&impl_->mutex);
    impl_->thunk = thunk;
    impl_->body = body;
    impl_->open = true;
    impl_->Divide(num_tasks);
    impl_->published.store(++impl_->epoch, std::memory_order_relaxed);
    impl_->wake.NotifyAll();
  }
  if (scope != nullptr) {
    impl_->DrainWhileWanted(scope, thunk, body);
  } else {
    impl_->Drain(thunk, body, 0);
  }
  {
    MutexLock lock(&impl_->mutex);
    impl_->open = false;
    if (impl_->joined == 0) return;
  }
  Watch([&] { return impl_->inside.load(std::memory_order_relaxed) == 0; });
  MutexLock lock(&impl_->mutex);
  while (impl_->joined > 0) impl_->done.Wait(&impl_->mutex);
}

}  // namespace vicinal
