// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda/gpu.h"

#include <cstdio>
#include <cstdlib>

#include "bench/cuda/event_timer.h"
#include "engine/cuda/runtime/cuda_device.h"

namespace vicinal::bench {

void MustBeOk(const Status& status, const std::string& what) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s\n", what.c_str(), std::string(status.message()).c_str());
  std::exit(1);
}

Gpu::Gpu(const std::string& backend_path) : backend_(Must(Backend::Load(backend_path), "loading the backend")) {
  device_ = Must(backend_->table().open_device(0, DeviceLimits()), "opening the device");
  backend_->table().register_kernels(registry_, device_.get());
  context_ = device_->CreateContext();
  MustBeOk(context_->Synchronize(), "preparing the context");
}

cudaStream_t Gpu::stream() const { return static_cast<cuda::CudaContext&>(*context_).target().stream; }

void Gpu::Poison(void* device, size_t bytes) { MustBeOk(cudaMemsetAsync(device, 0xff, bytes, stream()), "poison"); }

}  // namespace vicinal::bench
