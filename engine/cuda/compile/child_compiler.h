// SPDX-License-Identifier: Apache-2.0
// Compiles a kernel in a child process, so that neither a crash, nor the memory, nor the time of a compiler is the
// server's. Host code; needs no GPU.
#ifndef VICINAL_ENGINE_CUDA_COMPILE_CHILD_COMPILER_H_
#define VICINAL_ENGINE_CUDA_COMPILE_CHILD_COMPILER_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "engine/base/status.h"
#include "engine/cuda/compile/compile_request.h"

namespace vicinal::cuda {

struct ChildLimits {
  std::string program;
  std::chrono::milliseconds wall_time{60'000};
  int64_t memory_bytes = int64_t{4} << 30;
};

// The cubin. FAILED_PRECONDITION (COMPILER_FAILED), with the reason: no such program, killed after wall_time, ended by
// a limit or a signal, an answer that is none, or what the compiler says. Waits; no child is left behind. Thread-safe.
StatusOr<std::string> CompileInChild(const CompileRequest& request, const ChildLimits& limits);

// Why CompileInChild would fail for any request of that version (CompileRequest) and compute capability; empty: it
// compiled a kernel that does nothing.
std::string WhyCannotCompile(int version, int capability, const ChildLimits& limits);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMPILE_CHILD_COMPILER_H_
