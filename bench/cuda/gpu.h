// SPDX-License-Identifier: Apache-2.0
// The GPU under measurement: the backend loaded as by the engine, one context, and memory. A device error ends the
// program, as no figure after it is valid.
#ifndef VICINAL_BENCH_CUDA_GPU_H_
#define VICINAL_BENCH_CUDA_GPU_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/device/device.h"
#include "engine/kernels/backend.h"
#include "engine/kernels/registry.h"

namespace vicinal::bench {

// If not OK, prints `what` and the status, and exits with 1.
void MustBeOk(const Status& status, const std::string& what);

template <class T>
T Must(StatusOr<T> value, const std::string& what) {
  MustBeOk(value.status(), what);
  return *std::move(value);
}

class Gpu {
 public:
  explicit Gpu(const std::string& backend_path);

  const KernelRegistry& registry() const { return registry_; }
  Device& device() { return *device_; }
  DeviceContext& context() { return *context_; }
  std::string description() const { return device_->description(); }
  cudaStream_t stream() const;

  Buffer Allocate(size_t bytes) { return Must(device_->Allocate(bytes), "allocate"); }
  template <class T>
  Buffer Upload(const std::vector<T>& host) {
    Buffer buffer = Allocate(host.size() * sizeof(T));
    MustBeOk(device_->CopyFromHost(buffer.data(), host.data(), host.size() * sizeof(T)), "copy to the device");
    return buffer;
  }
  template <class T>
  std::vector<T> Download(const T* device, int64_t count) {
    std::vector<T> host(count);
    MustBeOk(device_->CopyToHost(host.data(), device, count * sizeof(T)), "copy from the device");
    return host;
  }
  // Fills with bytes that are NaN in every floating-point format.
  void Poison(void* device, size_t bytes);

 private:
  std::unique_ptr<Backend> backend_;
  KernelRegistry registry_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<DeviceContext> context_;
};

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_CUDA_GPU_H_
