// SPDX-License-Identifier: Apache-2.0
// The compute capability of the code that the current GPU runs.
#ifndef VICINAL_ENGINE_CUDA_RUNTIME_CODE_VERSION_H_
#define VICINAL_ENGINE_CUDA_RUNTIME_CODE_VERSION_H_

#include <cuda_runtime_api.h>

namespace vicinal::cuda {

// Sets *version to the compute capability, 10 * major + minor, that the code for the current device was compiled for.
// It is lower than the device's if the driver compiles PTX. Returns an error if there is no code for the device.
cudaError_t FindCodeVersion(int* version);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_RUNTIME_CODE_VERSION_H_
