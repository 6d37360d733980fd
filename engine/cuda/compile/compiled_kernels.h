// SPDX-License-Identifier: Apache-2.0
// Kernels compiled for one program of messages each, in the background, by one thread, one kernel at a time. Until a
// kernel is ready, and if it cannot be made, its program is interpreted, with equal bits.
//
// A kernel is loaded as long as a plan or a recording uses it. The last kMostIdleKernels that nobody uses stay loaded,
// as plans are made anew whenever a choice of tuning changes; older ones are unloaded. Host code; needs no GPU: a
// KernelMaker does what needs one.
#ifndef VICINAL_ENGINE_CUDA_COMPILE_COMPILED_KERNELS_H_
#define VICINAL_ENGINE_CUDA_COMPILE_COMPILED_KERNELS_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/cuda/compile/compile_request.h"

namespace vicinal::cuda {

class CudaDevice;

// Loaded kernels that neither a plan nor a recording uses.
inline constexpr size_t kMostIdleKernels = 16;

// Thread-safe.
class CompiledKernel {
 public:
  // Null: not yet, or never.
  const void* function() const { return function_.load(std::memory_order_acquire); }
  // Waits until it was made or refused.
  void Await() VICINAL_EXCLUDES(mutex_);
  // The same, at most that long. Whether it was.
  bool AwaitFor(std::chrono::milliseconds at_most) VICINAL_EXCLUDES(mutex_);
  // "compiled in 2.1 s", "from the directory of compiled kernels", or why it is interpreted.
  std::string Describe() VICINAL_EXCLUDES(mutex_);

 private:
  friend class CompiledKernels;
  void Finish(const void* function, std::string outcome) VICINAL_EXCLUDES(mutex_);

  std::atomic<const void*> function_{nullptr};
  Mutex mutex_;
  CondVar finished_;
  std::string outcome_ VICINAL_GUARDED_BY(mutex_);  // empty: not yet
};

// A use of a kernel. Its function is valid, and may be launched on the device that it was found for, until the use is
// gone. Must not outlive that device.
using CompiledKernelUse = std::shared_ptr<CompiledKernel>;

// The kernels that a recording launches. While one is recorded, on one thread, they are collected.
class RecordedCode {
 public:
  // Collects those that this thread launches, until it is destroyed.
  class Collector {
   public:
    Collector() : outer_(collecting_) { collecting_ = &kernels_; }
    ~Collector() { collecting_ = outer_; }
    Collector(const Collector&) = delete;
    Collector& operator=(const Collector&) = delete;

    RecordedCode Take() { return RecordedCode(std::move(kernels_)); }

   private:
    std::vector<CompiledKernelUse>* const outer_;
    std::vector<CompiledKernelUse> kernels_;
  };

  // Called with each kernel that is launched.
  static void Launched(const CompiledKernelUse& kernel) {
    if (collecting_ != nullptr) collecting_->push_back(kernel);
  }

 private:
  explicit RecordedCode(std::vector<CompiledKernelUse> kernels) : kernels_(std::move(kernels)) {}

  static thread_local std::vector<CompiledKernelUse>* collecting_;  // null: this thread records nothing

  std::vector<CompiledKernelUse> kernels_;
};

struct KernelJob {
  CompileRequest request;
  std::string key;  // KeyOf(request)
  int64_t shared_bytes = 0;
  int ordinal = 0;
  CudaDevice* device = nullptr;
};

struct MadeKernel {
  const void* function = nullptr;  // null: it could not be made
  void* library = nullptr;         // what Unload takes
  std::string outcome;             // for CompiledKernel::Describe
};

// What needs a GPU, a compiler and files.
class KernelMaker {
 public:
  virtual ~KernelMaker() = default;
  // On the thread that makes kernels.
  virtual MadeKernel Make(const KernelJob& job) = 0;
  // Returns a function that waits until all that was launched on the device before has ended, and says whether it has.
  virtual std::function<bool()> MarkLaunched(CudaDevice* device) = 0;
  // On the thread that makes kernels, after that function returned true.
  virtual void Unload(const MadeKernel& kernel) = 0;
};

// Thread-safe. Must outlive all uses.
class CompiledKernels {
 public:
  explicit CompiledKernels(KernelMaker* maker, size_t most_idle = kMostIdleKernels)
      : maker_(*maker), most_idle_(most_idle) {}
  CompiledKernels(const CompiledKernels&) = delete;
  CompiledKernels& operator=(const CompiledKernels&) = delete;

  // The same kernel for equal keys and devices. The first call for one adds work. A kernel whose uses all went before
  // its work began is never made.
  CompiledKernelUse Find(KernelJob job) VICINAL_EXCLUDES(mutex_);

  // Makes and unloads kernels until nothing is left to do. One thread at a time.
  void DoWork() VICINAL_EXCLUDES(mutex_);
  void AwaitWork() VICINAL_EXCLUDES(mutex_);

 private:
  struct Entry {
    std::unique_ptr<CompiledKernel> kernel;
    KernelJob job;  // its request only until the kernel is made
    enum class State { kWaiting, kMaking, kMade } state = State::kWaiting;
    MadeKernel made;
    int64_t uses = 0;
    std::function<bool()> ended;  // of an idle one: MarkLaunched
  };
  using Key = std::pair<std::string, CudaDevice*>;
  using Entries = std::map<Key, Entry>;

  void Release(const Key& key) VICINAL_EXCLUDES(mutex_);
  void BecomeIdle(Entries::iterator entry) VICINAL_REQUIRES(mutex_);
  void MakeNext() VICINAL_EXCLUDES(mutex_);
  void UnloadNext() VICINAL_EXCLUDES(mutex_);

  KernelMaker& maker_;
  const size_t most_idle_;
  Mutex mutex_;
  CondVar has_work_;
  Entries entries_ VICINAL_GUARDED_BY(mutex_);
  std::list<Key> waiting_ VICINAL_GUARDED_BY(mutex_);  // to be made
  std::list<Key> idle_ VICINAL_GUARDED_BY(mutex_);     // without uses, oldest first
  std::deque<Entry> unload_ VICINAL_GUARDED_BY(mutex_);
};

// Rises whenever a kernel becomes ready: launches recorded before may be made by a faster one.
uint64_t CompiledKernelsEpoch();

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMPILE_COMPILED_KERNELS_H_
