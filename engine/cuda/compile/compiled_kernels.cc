// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/compile/compiled_kernels.h"

#include <chrono>

#include "engine/base/check.h"

namespace vicinal::cuda {
namespace {

std::atomic<uint64_t> epoch{0};

}  // namespace

thread_local std::vector<CompiledKernelUse>* RecordedCode::collecting_ = nullptr;

uint64_t CompiledKernelsEpoch() { return epoch.load(std::memory_order_acquire); }

void CompiledKernel::Await() {
  MutexLock lock(&mutex_);
  while (outcome_.empty()) finished_.Wait(&mutex_);
}

bool CompiledKernel::AwaitFor(std::chrono::milliseconds at_most) {
  const auto deadline = std::chrono::steady_clock::now() + at_most;
  MutexLock lock(&mutex_);
  while (outcome_.empty()) {
    if (!finished_.WaitUntil(&mutex_, deadline)) break;
  }
  return !outcome_.empty();
}

std::string CompiledKernel::Describe() {
  MutexLock lock(&mutex_);
  return outcome_.empty() ? "it is interpreted until it is compiled" : outcome_;
}

void CompiledKernel::Finish(const void* function, std::string outcome) {
  function_.store(function, std::memory_order_release);
  if (function != nullptr) epoch.fetch_add(1, std::memory_order_acq_rel);
  MutexLock lock(&mutex_);
  outcome_ = std::move(outcome);
  finished_.NotifyAll();
}

CompiledKernelUse CompiledKernels::Find(KernelJob job) {
  const Key key{job.key, job.device};
  MutexLock lock(&mutex_);
  Entry& entry = entries_[key];
  if (entry.kernel == nullptr) {
    entry.kernel = std::make_unique<CompiledKernel>();
    entry.job = std::move(job);
    waiting_.push_back(key);
    has_work_.NotifyAll();
  } else if (entry.uses == 0) {
    idle_.remove(key);
    entry.ended = nullptr;
  }
  ++entry.uses;
  return {entry.kernel.get(), [this, key](CompiledKernel*) { Release(key); }};
}

void CompiledKernels::Release(const Key& key) {
  MutexLock lock(&mutex_);
  const auto entry = entries_.find(key);
  VICINAL_CHECK(entry != entries_.end());
  if (--entry->second.uses > 0) return;
  switch (entry->second.state) {
    case Entry::State::kWaiting:
      waiting_.remove(key);
      entries_.erase(entry);
      return;
    case Entry::State::kMaking:
      return;  // MakeNext will find it without uses
    case Entry::State::kMade:
      if (entry->second.made.function != nullptr) entry->second.ended = maker_.MarkLaunched(key.second);
      return BecomeIdle(entry);
  }
}

// One that could not be made is kept, too, so that it is not tried again for every plan.
void CompiledKernels::BecomeIdle(Entries::iterator entry) {
  idle_.push_back(entry->first);
  if (idle_.size() <= most_idle_) return;
  const auto oldest = entries_.find(idle_.front());
  idle_.pop_front();
  if (oldest->second.made.function != nullptr) {
    unload_.push_back(std::move(oldest->second));
    has_work_.NotifyAll();
  }
  entries_.erase(oldest);
}

void CompiledKernels::DoWork() {
  for (;;) {
    bool make = false;
    {
      MutexLock lock(&mutex_);
      if (unload_.empty() && waiting_.empty()) return;
      make = unload_.empty();
    }
    make ? MakeNext() : UnloadNext();
  }
}

void CompiledKernels::AwaitWork() {
  MutexLock lock(&mutex_);
  while (unload_.empty() && waiting_.empty()) has_work_.Wait(&mutex_);
}

void CompiledKernels::MakeNext() {
  Key key;
  KernelJob job;
  {
    MutexLock lock(&mutex_);
    if (waiting_.empty()) return;  // its last use has gone
    key = waiting_.front();
    waiting_.pop_front();
    Entry& entry = entries_.at(key);
    entry.state = Entry::State::kMaking;
    job = std::move(entry.job);
  }
  MadeKernel made = maker_.Make(job);
  MutexLock lock(&mutex_);
  const auto entry = entries_.find(key);  // not erased while it is made
  VICINAL_CHECK(entry != entries_.end());
  entry->second.state = Entry::State::kMade;
  entry->second.made = made;
  entry->second.kernel->Finish(made.function, std::move(made.outcome));
  if (entry->second.uses == 0) BecomeIdle(entry);  // nothing has launched it
}

void CompiledKernels::UnloadNext() {
  Entry entry;
  {
    MutexLock lock(&mutex_);
    if (unload_.empty()) return;
    entry = std::move(unload_.front());
    unload_.pop_front();
  }
  // Launches that have not ended, on a device that is lost: what it holds goes with the process.
  if (entry.ended != nullptr && !entry.ended()) return;
  maker_.Unload(entry.made);
}

}  // namespace vicinal::cuda
