// SPDX-License-Identifier: Apache-2.0
// Which of the code in this library runs on the current GPU.
#ifndef VICINAL_ENGINE_CUDA_RUNTIME_CODE_VERSION_H_
#define VICINAL_ENGINE_CUDA_RUNTIME_CODE_VERSION_H_

#include <cuda_runtime_api.h>

namespace vicinal::cuda {

// The compute capability, 10 * major + minor, that the code for the current device was compiled for: an older one than
// the device's where the driver compiles PTX. An error: there is no code for it.
cudaError_t FindCodeVersion(int* version);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_RUNTIME_CODE_VERSION_H_
