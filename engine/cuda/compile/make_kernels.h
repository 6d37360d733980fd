// SPDX-License-Identifier: Apache-2.0
// The compiled kernels of this process, and the thread that makes them: from the directory of compiled kernels, or by a
// child process.
#ifndef VICINAL_ENGINE_CUDA_COMPILE_MAKE_KERNELS_H_
#define VICINAL_ENGINE_CUDA_COMPILE_MAKE_KERNELS_H_

#include <cstdint>
#include <string>

#include "engine/cuda/compile/compiled_kernels.h"
#include "engine/cuda/compile/fuse_program.h"
#include "engine/cuda/message/expression/expression.h"

namespace vicinal::cuda {

// The kernel of `program` for tiles and shared memory of that plan, on that device. The same one for equal programs;
// its compilation begins with the first call.
CompiledKernelUse FindCompiledKernel(const FusedProgram& program, const ExpressionPlan& plan, CudaDevice* device);

// Why no kernel can be compiled for that device in this process; empty: they can. The first call for a compute
// capability asks the compiler, for some tenths of a second; the answer holds until the process ends, as plans depend
// on it.
const std::string& WhyNothingCompiles(CudaDevice* device);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMPILE_MAKE_KERNELS_H_
