// SPDX-License-Identifier: Apache-2.0
// Recordings as CUDA graphs, and timers as events that may be part of one.
#ifndef VICINAL_ENGINE_CUDA_RUNTIME_CUDA_RECORDING_H_
#define VICINAL_ENGINE_CUDA_RUNTIME_CUDA_RECORDING_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/cuda/compile/compiled_kernels.h"
#include "engine/cuda/runtime/cuda_device.h"

namespace vicinal::cuda {

class CudaRecording final : public Recording {
 public:
  // Takes ownership of `exec`. `context` is the number of the context that recorded it, whose tickets and stream it
  // uses.
  // `epoch`: CompiledKernelsEpoch() when recording began. `code`: what stays loaded as long as the recording.
  CudaRecording(cudaGraphExec_t exec, uint64_t context, int ordinal, uint64_t epoch, RecordedCode code)
      : code_(std::move(code)), exec_(exec), context_(context), ordinal_(ordinal), epoch_(epoch) {}
  ~CudaRecording() override;

  cudaGraphExec_t exec() const { return exec_; }
  uint64_t context() const { return context_; }
  uint64_t epoch() const { return epoch_; }

 private:
  const RecordedCode code_;
  const cudaGraphExec_t exec_;
  const uint64_t context_;
  const int ordinal_;
  const uint64_t epoch_;
};

class CudaTimer final : public DeviceTimer {
 public:
  // `context` must outlive the timer and be prepared.
  static StatusOr<std::unique_ptr<DeviceTimer>> Make(CudaContext* context, int points);
  ~CudaTimer() override;

  Status Mark(int point) override;
  StatusOr<double> Seconds(int from, int to) const override;

 private:
  explicit CudaTimer(CudaContext* context) : context_(*context) {}

  CudaContext& context_;
  std::vector<cudaEvent_t> events_;
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_RUNTIME_CUDA_RECORDING_H_
