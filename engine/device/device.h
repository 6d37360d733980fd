// SPDX-License-Identifier: Apache-2.0
// What the engine knows of a device: memory that it allocates, copies in and out, and a context that kernels run in.
// The CPU is the embedded one; others come from a backend loaded at run time (kernels/backend.h). Plans see only this.
#ifndef VICINAL_ENGINE_DEVICE_DEVICE_H_
#define VICINAL_ENGINE_DEVICE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/status.h"
#include "engine/base/thread_pool.h"

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

// Where kernels run: a stream on a GPU, a thread pool on the CPU. Used by one thread at a time.
class DeviceContext {
 public:
  virtual ~DeviceContext() = default;
  virtual Device& device() = 0;
  // CPU only; null elsewhere.
  virtual ThreadPool* thread_pool() = 0;
  // Waits until all that was launched has finished; its errors surface here. Nothing to do on the CPU.
  virtual Status Synchronize() = 0;
};

// Thread-safe.
class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  virtual std::string name() const = 0;         // "cpu", "cuda:0"
  virtual std::string description() const = 0;  // processor, instruction set, threads
  // Uninitialised memory; RESOURCE_EXHAUSTED when there is none. `bytes` may be 0.
  virtual StatusOr<Buffer> Allocate(size_t bytes) = 0;
  virtual Status CopyFromHost(void* dst, const void* host, size_t bytes) = 0;
  virtual Status CopyToHost(void* host, const void* src, size_t bytes) = 0;
  virtual std::unique_ptr<DeviceContext> CreateContext() = 0;
  // Bytes allocated now.
  virtual int64_t allocated_bytes() const = 0;

 private:
  friend class Buffer;
  virtual void Free(void* data, size_t bytes) = 0;
};

// The CPU with `num_threads` threads for kernels (0: one per core that this process may use, or as many as its CPU
// quota). Each context has a pool of its own.
std::unique_ptr<Device> MakeCpuDevice(int num_threads);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_DEVICE_DEVICE_H_
