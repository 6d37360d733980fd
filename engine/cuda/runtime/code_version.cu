// SPDX-License-Identifier: Apache-2.0
// Queries the attributes of a kernel that is compiled like all others.
#include "engine/cuda/runtime/code_version.h"

namespace vicinal::cuda {
namespace {

__global__ void Nothing() {}

}  // namespace

cudaError_t FindCodeVersion(int* version) {
  cudaFuncAttributes attributes;
  const cudaError_t error = cudaFuncGetAttributes(&attributes, Nothing);
  if (error == cudaSuccess) *version = attributes.ptxVersion;
  return error;
}

}  // namespace vicinal::cuda
