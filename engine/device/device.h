// SPDX-License-Identifier: Apache-2.0
// What the engine knows of a device: memory that it allocates, copies in and out, and a context that kernels run in.
// The CPU is the embedded one; others come from a backend loaded at run time (kernels/backend.h). Plans see only this.
#ifndef VICINAL_ENGINE_DEVICE_DEVICE_H_
#define VICINAL_ENGINE_DEVICE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "engine/base/status.h"
#include "engine/base/thread_pool.h"
#include "engine/device/views.h"

namespace vicinal {

enum class DeviceKind { kCpu, kCuda };

class Device;

// Owns memory of one device. Move-only; gives it back on destruction, so the Device must outlive it. 64-byte aligned.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device* device, void* data, size_t bytes) : device_(device), data_(data), bytes_(bytes) {}
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }

 private:
  Device* device_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// Launches that were recorded, to be made again at once instead of one by one (a CUDA graph). May outlive its context.
class Recording {
 public:
  virtual ~Recording() = default;
};

// Times points of a context's work on the device itself. Used on the context's thread, within the context's life.
class DeviceTimer {
 public:
  virtual ~DeviceTimer() = default;
  // The moment at which all that was launched so far has finished is `point`, 0 <= point < points. While launches are
  // recorded, the mark is recorded with them.
  virtual Status Mark(int point) = 0;
  // From one marked point to a later one. REQUIRES: the context was synchronized since.
  virtual StatusOr<double> Seconds(int from, int to) const = 0;
};

// Bytes in host memory.
struct HostPiece {
  // Pieces that are sent together begin at multiples of this.
  static constexpr size_t kAlignment = 64;

  const void* data = nullptr;
  size_t bytes = 0;

  // Up to where the next one begins.
  size_t room() const { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }
};

// Where kernels run: a stream on a GPU, a thread pool on the CPU. Used by one thread at a time.
class DeviceContext {
 public:
  virtual ~DeviceContext() = default;
  virtual Device& device() = 0;
  // CPU only; null elsewhere.
  virtual ThreadPool* thread_pool() = 0;
  // Waits until all that was launched has finished; its errors surface here. Nothing to do on the CPU.
  virtual Status Synchronize() = 0;

  // Rows rows[0 .. count) of `src` to `host` [count, src.cols]. What was launched before has happened before; returns
  // when the rows are there.
  virtual Status CopyRowsToHost(float* host, ConstMatrixView src, const int64_t* rows, int64_t count) = 0;

  // Whether launches return before they have run, so that a clock around them tells nothing, and recording may pay. On
  // the CPU neither; what follows is for such contexts only.
  virtual bool launches_only() const { return false; }
  // Calls `launch`, and records what it launches in place of running it. Kernels of a recording may overlap: none
  // writes what another takes as given (adjacencies, weights, numbers per row, a model's features). FAILED_PRECONDITION
  // (reason CANNOT_RECORD): something in it cannot be recorded; nothing ran, and the context goes on.
  virtual StatusOr<std::unique_ptr<Recording>> Record(const std::function<Status()>& launch);
  // Launches what was recorded, with the arguments it was recorded with. FAILED_PRECONDITION (CANNOT_RECORD): another
  // context made the recording.
  virtual Status Replay(const Recording& recording);
  virtual StatusOr<std::unique_ptr<DeviceTimer>> MakeTimer(int points);

  // For devices with memory of their own. Both are launched among kernels, in their turn.
  // `pieces` to `dst`, each where room() of those before it ends. Returns when they may be written again. REQUIRES:
  // `dst` is aligned as they are.
  virtual Status SendPieces(void* dst, std::span<const HostPiece> pieces);
  // Rows rows[0 .. out.rows) of `src`. All is on the device. REQUIRES: out.value is null where `src` has no values.
  virtual Status GatherSparseRows(const CsrView& src, const int64_t* rows, const SparseRowsOut& out);
};

// Thread-safe.
class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  virtual std::string name() const = 0;                   // "cpu", "cuda:0"
  virtual std::string description() const = 0;            // processor, instruction set, threads
  virtual std::string pci_address() const { return {}; }  // of a GPU, for example "0000:17:00.0"
  // Uninitialised memory; RESOURCE_EXHAUSTED when there is none. `bytes` may be 0.
  virtual StatusOr<Buffer> Allocate(size_t bytes) = 0;
  virtual Status CopyFromHost(void* dst, const void* host, size_t bytes) = 0;
  virtual Status CopyToHost(void* host, const void* src, size_t bytes) = 0;
  // From memory of this device to other memory of it.
  virtual Status CopyOnDevice(void* dst, const void* src, size_t bytes) = 0;
  virtual std::unique_ptr<DeviceContext> CreateContext() = 0;
  // A context for small work beside the long work of another one. Null: the device has no such contexts.
  virtual std::unique_ptr<DeviceContext> CreateSmallContext() { return nullptr; }
  // INTERNAL (reason DEVICE_LOST) once this process can use the device no more; only a new process can. OK otherwise.
  virtual Status Health() { return OkStatus(); }
  // Bytes allocated now.
  virtual int64_t allocated_bytes() const = 0;
  // Size of the last cache before a GPU's memory. 0 for the CPU.
  virtual int64_t last_cache_bytes() const { return 0; }

 private:
  friend class Buffer;
  virtual void Free(void* data, size_t bytes) = 0;
};

// The reason of errors that leave a device of no use to this process (docs/errors.md, "From a GPU").
inline constexpr char kDeviceLostReason[] = "DEVICE_LOST";
// The reason of a refusal to record launches.
inline constexpr char kCannotRecordReason[] = "CANNOT_RECORD";

// The CPU with `num_threads` threads for kernels (0: one per core that this process may use, or as many as its CPU
// quota). Each context has a pool of its own.
std::unique_ptr<Device> MakeCpuDevice(int num_threads);

// Threads for what is computed on the host for `context`'s device, with as many as the CPU would have: null where the
// context has such itself.
std::unique_ptr<ThreadPool> MakeHostPool(DeviceContext& context);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_DEVICE_DEVICE_H_
