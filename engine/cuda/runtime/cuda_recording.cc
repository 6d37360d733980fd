// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/runtime/cuda_recording.h"

#include "engine/cuda/runtime/cuda_error.h"

namespace vicinal::cuda {

CudaRecording::~CudaRecording() {
  if (cudaSetDevice(ordinal_) == cudaSuccess) cudaGraphExecDestroy(exec_);
}

StatusOr<std::unique_ptr<DeviceTimer>> CudaTimer::Make(CudaContext* context, int points) {
  std::unique_ptr<CudaTimer> timer(new CudaTimer(context));
  for (int i = 0; i < points; ++i) {
    cudaEvent_t event = nullptr;
    VICINAL_RETURN_IF_ERROR(CudaStatus(cudaEventCreate(&event), "making an event"));
    timer->events_.push_back(event);
  }
  return std::unique_ptr<DeviceTimer>(std::move(timer));
}

CudaTimer::~CudaTimer() {
  for (cudaEvent_t event : events_) cudaEventDestroy(event);
}

Status CudaTimer::Mark(int point) {
  // The timed work must not start before its mark.
  context_.StopOverlap();
  // In a recording, an event is by default only a dependency between launches. This flag makes it a node of the graph.
  const unsigned flags = context_.recording() ? cudaEventRecordExternal : cudaEventRecordDefault;
  return CudaStatus(cudaEventRecordWithFlags(events_[point], context_.target().stream, flags), "recording an event");
}

StatusOr<double> CudaTimer::Seconds(int from, int to) const {
  float milliseconds = 0.0f;
  VICINAL_RETURN_IF_ERROR(
      CudaStatus(cudaEventElapsedTime(&milliseconds, events_[from], events_[to]), "reading a time"));
  return static_cast<double>(milliseconds) * 1e-3;
}

}  // namespace vicinal::cuda
