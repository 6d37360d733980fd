// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/compile/make_kernels.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/mutex.h"
#include "engine/cuda/compile/child_compiler.h"
#include "engine/cuda/compile/cubin_cache.h"
#include "engine/cuda/compile/generate_source.h"
#include "engine/cuda/compile/standard_headers.h"
#include "engine/cuda/runtime/cuda_device.h"
#include "engine/cuda/runtime/cuda_error.h"
#include "engine/kernels/run_time_compilation.h"

namespace vicinal::cuda {
namespace {

// The program beside this library's directory, as bundles, images and builds have it.
std::string ProgramBesideLibrary() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&FindCompiledKernel), &info) == 0 || info.dli_fname == nullptr) return {};
  const std::string library = info.dli_fname;
  const size_t slash = library.rfind('/');
  return absl::StrCat(slash == std::string::npos ? "." : library.substr(0, slash), "/../bin/vicinal-kernel-compiler");
}

int CapabilityOf(CudaDevice* device) {
  int major = 0, minor = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device->ordinal());
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device->ordinal());
  return 10 * major + minor;
}

// Of this build's compiler, as NVRTC counts.
constexpr int kCompilerVersion = CUDART_VERSION / 10 * 10;

ChildLimits LimitsOf(const RunTimeCompilation& setting) {
  return {setting.compiler.empty() ? ProgramBesideLibrary() : setting.compiler, setting.wall_time,
          setting.memory_bytes};
}

CompileRequest RequestOf(const FusedProgram& program, const ExpressionPlan& plan, int capability) {
  CompileRequest request;
  request.version = kCompilerVersion;
  request.source = GenerateSource(program, plan.tile, plan.block_floats == 0, plan.part_columns);
  // Rounding as in the interpreter (engine/cuda/CMakeLists.txt).
  request.options = {absl::StrCat("--gpu-architecture=sm_", capability), "--std=c++20", "--fmad=false",
                     "--device-as-default-execution-space", "--diag-suppress=554,177"};
  for (const HeaderText& header : StandardHeaders()) request.headers.emplace_back(header.name, header.text);
  for (const HeaderText& header : DeviceHeaders()) request.headers.emplace_back(header.name, header.text);
  return request;
}

// Loads a cubin into the current device's context. On failure function is null, and outcome says why.
MadeKernel Load(const std::string& cubin, int64_t shared_bytes) {
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  cudaError_t error = cudaLibraryLoadData(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (error == cudaSuccess) error = cudaLibraryGetKernel(&kernel, library, kCompiledKernel);
  if (error == cudaSuccess) {
    error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shared_bytes));
  }
  if (error == cudaSuccess) return {reinterpret_cast<const void*>(kernel), library, ""};
  if (library != nullptr) cudaLibraryUnload(library);
  return {nullptr, nullptr, absl::StrCat("loading it failed: ", cudaGetErrorString(error))};
}

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// "2.1 s"
std::string TimeText(double seconds) {
  const auto tenths = static_cast<int64_t>(10.0 * seconds);
  return absl::StrCat(tenths / 10, ".", tenths % 10, " s");
}

class CudaKernelMaker final : public KernelMaker {
 public:
  MadeKernel Make(const KernelJob& job) override {
    cudaSetDevice(job.ordinal);
    const RunTimeCompilation setting = CurrentRunTimeCompilation();
    const CubinCache cache(setting.directory);
    const auto begin = std::chrono::steady_clock::now();
    if (const auto kept = cache.Load(job.key); kept.has_value()) {
      MadeKernel made = Load(*kept, job.shared_bytes);
      if (made.function != nullptr) {
        CountRunTimeCompilation("kept", SecondsSince(begin));
        made.outcome = "a compiled kernel that was kept";
        return made;
      }
    }
    const StatusOr<std::string> cubin = CompileInChild(job.request, LimitsOf(setting));
    MadeKernel made;
    if (cubin.ok()) made = Load(*cubin, job.shared_bytes);
    const double seconds = SecondsSince(begin);
    const std::string time = TimeText(seconds);
    CountRunTimeCompilation(made.function != nullptr ? "compiled" : "failed", seconds);
    if (made.function == nullptr) {
      const std::string why = cubin.ok() ? made.outcome : std::string(cubin.status().message());
      LogRunTimeCompilation(LogLevel::kWarning, "expression is interpreted, as its kernel was not compiled",
                            {{"kernel", job.key}, {"after", time}, {"reason", why}});
      made.outcome = absl::StrCat("it is interpreted, as compiling failed: ", why);
      return made;
    }
    cache.Store(job.key, *cubin);
    LogRunTimeCompilation(LogLevel::kInfo, "kernel of an expression compiled", {{"kernel", job.key}, {"time", time}});
    made.outcome = absl::StrCat("compiled in ", time);
    return made;
  }

  std::function<bool()> MarkLaunched(CudaDevice* device) override { return device->MarkLaunched(); }

  void Unload(const MadeKernel& kernel) override {
    if (cudaLibraryUnload(static_cast<cudaLibrary_t>(kernel.library)) == cudaSuccess) {
      CountRunTimeCompilation("unloaded", 0.0);
    }
  }
};

// Never destroyed, as its thread is never joined.
CompiledKernels& AllKernels() {
  static auto* const kernels = [] {
    auto* const made = new CompiledKernels(new CudaKernelMaker);
    std::thread([made] {
      // Loading and unloading are no part of what other threads record meanwhile.
      cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
      cudaThreadExchangeStreamCaptureMode(&mode);
      for (;;) made->AwaitWork(), made->DoWork();
    }).detach();
    return made;
  }();
  return *kernels;
}

// Why the compiler makes no code, per compute capability and setting of run-time compilation. Strings stay where they
// are.
class CompilerAnswers {
 public:
  const std::string& Of(int capability) {
    // Whoever plans waits for it, so it gets less time than a kernel.
    ChildLimits limits = LimitsOf(CurrentRunTimeCompilation());
    limits.wall_time = std::min<std::chrono::milliseconds>(limits.wall_time, std::chrono::seconds(10));
    MutexLock lock(&mutex_);
    const auto [answer, is_new] =
        answers_.try_emplace({capability, limits.program, limits.wall_time, limits.memory_bytes});
    if (is_new) answer->second = WhyCannotCompile(kCompilerVersion, capability, limits);
    return answer->second;
  }

 private:
  Mutex mutex_;
  std::map<std::tuple<int, std::string, std::chrono::milliseconds, int64_t>, std::string> answers_
      VICINAL_GUARDED_BY(mutex_);
};

}  // namespace

CompiledKernelUse FindCompiledKernel(const FusedProgram& program, const ExpressionPlan& plan, CudaDevice* device) {
  KernelJob job;
  job.request = RequestOf(program, plan, CapabilityOf(device));
  job.key = KeyOf(job.request);
  job.shared_bytes = plan.shared_bytes;
  job.ordinal = device->ordinal();
  job.device = device;
  return AllKernels().Find(std::move(job));
}

const std::string& WhyNothingCompiles(CudaDevice* device) {
  static auto* const answers = new CompilerAnswers;
  return answers->Of(CapabilityOf(device));
}

}  // namespace vicinal::cuda
