// SPDX-License-Identifier: Apache-2.0
// The launcher of plain_rows, free of device code. The idea is in plain_rows.cu.
#ifndef VICINAL_ENGINE_CUDA_ATTENTION_PLAIN_ROWS_PLAIN_ROWS_H_
#define VICINAL_ENGINE_CUDA_ATTENTION_PLAIN_ROWS_PLAIN_ROWS_H_

#include <cuda_runtime_api.h>

#include "engine/cuda/common/launch.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// Needs no scratch memory.
cudaError_t LaunchPlainAttention(const AttentionArgs& args, const LaunchTarget& target);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_ATTENTION_PLAIN_ROWS_PLAIN_ROWS_H_
