// SPDX-License-Identifier: Apache-2.0
// A GPU as a Device: memory from the driver's stream-ordered pool, copies through pinned staging memory on a stream of
// its own, and contexts that own a stream. Copies and frees wait for the work of all contexts, so the caller sees the
// same order as on the CPU: work launched before a copy is complete before it. None of these calls is made while a plan
// runs, so the waits do not matter.
#ifndef VICINAL_ENGINE_CUDA_RUNTIME_CUDA_DEVICE_H_
#define VICINAL_ENGINE_CUDA_RUNTIME_CUDA_DEVICE_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "engine/cuda/common/gpu_limits.h"
#include "engine/cuda/common/launch.h"
#include "engine/cuda/runtime/pieces_to_device.h"
#include "engine/cuda/runtime/rows_to_host.h"
#include "engine/device/class_rows.h"
#include "engine/device/device.h"
#include "engine/device/device_limits.h"

namespace vicinal::cuda {

class CudaDevice;

// A stream, the tickets of kernels that split rows (launch.h), and pinned memory for results and small inputs of a run.
// Not thread-safe: used by one thread at a time.
class CudaContext final : public DeviceContext, public ClassRanker {
 public:
  // The blocks of an urgent context's kernels run before those of others that have not begun.
  explicit CudaContext(CudaDevice& device, bool urgent = false);
  ~CudaContext() override;

  Device& device() override;
  ThreadPool* thread_pool() override { return nullptr; }
  Status Synchronize() override;
  Status CopyRowsToHost(float* host, ConstMatrixView src, const int64_t* rows, int64_t count) override;
  bool RanksClasses(int64_t classes, int64_t top_k) const override;
  Status ClassRowsToHost(const ClassRowsJob& job) override;
  bool launches_only() const override { return true; }
  StatusOr<std::unique_ptr<Recording>> Record(const std::function<Status()>& launch) override;
  Status Replay(const Recording& recording) override;
  StatusOr<std::unique_ptr<DeviceTimer>> MakeTimer(int points) override;
  Status SendPieces(void* dst, std::span<const HostPiece> pieces) override;
  Status GatherSparseRows(const CsrView& src, const int64_t* rows, const SparseRowsOut& out) override;

  // Makes the device current on this thread. Every call returns an error of the context's creation, if there was one.
  Status Prepare();
  // REQUIRES: Prepare() was OK on this thread.
  const LaunchTarget& target() const { return target_; }
  bool recording() const { return recording_; }
  // For the rest of this recording, kernels start only after all preceding ones have ended.
  void StopOverlap() { target_.overlap = false; }

 private:
  friend class CudaDevice;
  Status Create(bool urgent);

  CudaDevice& device_;
  const uint64_t number_;  // unique in this process
  LaunchTarget target_;
  Buffer tickets_;
  RowsToHost rows_to_host_;
  PiecesToDevice pieces_to_device_;
  cudaEvent_t done_ = nullptr;  // recorded by the device when a copy must wait for this context
  bool recording_ = false;      // written under the device's mutex, read there and on the context's thread
  Status created_;              // last: Create() fills the members above
};

// Thread-safe.
class CudaDevice final : public Device {
 public:
  // Returns FAILED_PRECONDITION (DEVICE_UNSUPPORTED) if the GPU is older than Turing, or this build has no code for it.
  static StatusOr<std::unique_ptr<Device>> Open(int ordinal, const DeviceLimits& limits);
  ~CudaDevice() override;

  DeviceKind kind() const override { return DeviceKind::kCuda; }
  std::string name() const override;
  std::string description() const override { return description_; }
  std::string pci_address() const override { return pci_address_; }
  StatusOr<Buffer> Allocate(size_t bytes) override;
  Status CopyFromHost(void* dst, const void* host, size_t bytes) override;
  Status CopyToHost(void* host, const void* src, size_t bytes) override;
  Status CopyOnDevice(void* dst, const void* src, size_t bytes) override;
  std::unique_ptr<DeviceContext> CreateContext() override;
  std::unique_ptr<DeviceContext> CreateSmallContext() override;
  Status Health() override;
  int64_t last_cache_bytes() const override { return limits_.l2_bytes; }
  int64_t allocated_bytes() const override { return allocated_.load(std::memory_order_relaxed); }

  // Makes the device current on this thread.
  Status MakeCurrent() const;
  // Returns a function that waits until the work launched by all contexts so far has ended; false: the device is lost.
  // It may be called on any thread, also when this device is gone.
  std::function<bool()> MarkLaunched() VICINAL_EXCLUDES(mutex_);
  int ordinal() const { return ordinal_; }
  const GpuLimits& limits() const { return limits_; }

 private:
  friend class CudaContext;
  explicit CudaDevice(int ordinal) : ordinal_(ordinal) {}
  Status Initialize(const DeviceLimits& limits);
  Status FindLimits(const DeviceLimits& limits);
  void Free(void* data, size_t bytes) override;
  void Register(CudaContext* context) VICINAL_EXCLUDES(mutex_);
  void Unregister(CudaContext* context) VICINAL_EXCLUDES(mutex_);
  // Makes stream_ wait for all work launched by the contexts so far.
  Status AwaitContexts() VICINAL_REQUIRES(mutex_);
  // Between these calls, work launched on the context's stream is captured instead of run. No other thread may use it.
  Status BeginRecording(CudaContext* context) VICINAL_EXCLUDES(mutex_);
  void EndRecording(CudaContext* context) VICINAL_EXCLUDES(mutex_);

  const int ordinal_;
  GpuLimits limits_;
  std::string description_, pci_address_;
  cudaMemPool_t pool_ = nullptr;
  std::atomic<int64_t> allocated_{0};

  Mutex mutex_;
  cudaStream_t stream_ VICINAL_GUARDED_BY(mutex_) = nullptr;  // allocations, frees and copies
  char* staging_ VICINAL_GUARDED_BY(mutex_) = nullptr;        // pinned; two halves, used alternately
  cudaEvent_t half_done_[2] VICINAL_GUARDED_BY(mutex_) = {nullptr, nullptr};
  std::vector<CudaContext*> contexts_ VICINAL_GUARDED_BY(mutex_);
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_RUNTIME_CUDA_DEVICE_H_
