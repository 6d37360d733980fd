// SPDX-License-Identifier: Apache-2.0
#ifndef VICINAL_ENGINE_CUDA_RUNTIME_RELAXED_CAPTURE_H_
#define VICINAL_ENGINE_CUDA_RUNTIME_RELAXED_CAPTURE_H_

#include <cuda_runtime_api.h>

namespace vicinal::cuda {

// While it exists, this thread may make calls that CUDA refuses while a recording is open, such as those that load
// code: they are no part of what other threads record meanwhile.
class RelaxedCapture {
 public:
  RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;  // the thread's former one, once exchanged
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_RUNTIME_RELAXED_CAPTURE_H_
