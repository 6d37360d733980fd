// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/compile/compiled_kernels.h"

#include <dlfcn.h>

#include <chrono>
#include <deque>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/cuda/compile/child_compiler.h"
#include "engine/cuda/compile/cubin_cache.h"
#include "engine/cuda/compile/generate_source.h"
#include "engine/cuda/compile/standard_headers.h"
#include "engine/cuda/runtime/cuda_error.h"
#include "engine/kernels/run_time_compilation.h"

namespace vicinal::cuda {
namespace {

std::atomic<uint64_t> epoch{0};

// The program beside this library's directory, as bundles, images and builds have it.
std::string ProgramBesideLibrary() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&CompiledKernelsEpoch), &info) == 0 || info.dli_fname == nullptr) return {};
  const std::string library = info.dli_fname;
  const size_t slash = library.rfind('/');
  return absl::StrCat(slash == std::string::npos ? "." : library.substr(0, slash), "/../bin/vicinal-kernel-compiler");
}

CompileRequest RequestOf(const TileProgram& program, int tile, int capability) {
  CompileRequest request;
  request.version = CUDART_VERSION / 10 * 10;
  request.source = GenerateSource(program, tile);
  // Rounding as in the interpreter (engine/cuda/CMakeLists.txt).
  request.options = {absl::StrCat("--gpu-architecture=sm_", capability), "--std=c++20", "--fmad=false",
                     "--device-as-default-execution-space", "--diag-suppress=554,177"};
  for (const HeaderText& header : StandardHeaders()) request.headers.emplace_back(header.name, header.text);
  for (const HeaderText& header : DeviceHeaders()) request.headers.emplace_back(header.name, header.text);
  return request;
}

struct Loaded {
  const void* function = nullptr;
  std::string error;
};

// Loads a cubin into the current device's context. Never unloaded.
Loaded Load(const std::string& cubin, int64_t shared_bytes) {
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  cudaError_t error = cudaLibraryLoadData(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (error == cudaSuccess) error = cudaLibraryGetKernel(&kernel, library, kCompiledKernel);
  if (error == cudaSuccess) {
    error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shared_bytes));
  }
  if (error != cudaSuccess) return {nullptr, absl::StrCat("loading it failed: ", cudaGetErrorString(error))};
  return {reinterpret_cast<const void*>(kernel), ""};
}

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// "2.1 s"
std::string TimeText(double seconds) {
  const auto tenths = static_cast<int64_t>(10.0 * seconds);
  return absl::StrCat(tenths / 10, ".", tenths % 10, " s");
}

}  // namespace

uint64_t CompiledKernelsEpoch() { return epoch.load(std::memory_order_acquire); }

void CompiledKernel::Await() {
  MutexLock lock(&mutex_);
  while (outcome_.empty()) finished_.Wait(&mutex_);
}

std::string CompiledKernel::Describe() {
  MutexLock lock(&mutex_);
  return outcome_.empty() ? "it is interpreted until it is compiled" : outcome_;
}

void CompiledKernel::Finish(const void* function, std::string outcome) {
  function_.store(function, std::memory_order_release);
  if (function != nullptr) epoch.fetch_add(1, std::memory_order_acq_rel);
  MutexLock lock(&mutex_);
  outcome_ = std::move(outcome);
  finished_.NotifyAll();
}

// All kernels of this process, and the thread that makes them. Never destroyed.
class CompiledKernels {
 public:
  std::shared_ptr<CompiledKernel> Find(const TileProgram& program, int tile, int64_t shared_bytes, int ordinal)
      VICINAL_EXCLUDES(mutex_) {
    Job job{nullptr, {}, {}, shared_bytes, ordinal};
    int major = 0, minor = 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, ordinal);
    job.request = RequestOf(program, tile, 10 * major + minor);
    job.key = KeyOf(job.request);
    MutexLock lock(&mutex_);
    std::shared_ptr<CompiledKernel>& known = kernels_[{job.key, ordinal}];
    if (known != nullptr) return known;
    known = job.kernel = std::make_shared<CompiledKernel>();
    jobs_.push_back(std::move(job));
    if (!started_) std::thread([this] { Work(); }).detach();
    started_ = true;
    has_jobs_.NotifyAll();
    return known;
  }

 private:
  struct Job {
    std::shared_ptr<CompiledKernel> kernel;
    CompileRequest request;
    std::string key;
    int64_t shared_bytes;
    int ordinal;
  };

  [[noreturn]] void Work() {
    // Loading is no part of what other threads record meanwhile.
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&mode);
    for (;;) {
      Job job = Next();
      Make(job);
    }
  }

  Job Next() VICINAL_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    while (jobs_.empty()) has_jobs_.Wait(&mutex_);
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    return job;
  }

  static void Make(const Job& job) {
    cudaSetDevice(job.ordinal);
    const RunTimeCompilation setting = CurrentRunTimeCompilation();
    const CubinCache cache(setting.directory);
    const auto begin = std::chrono::steady_clock::now();
    if (const auto kept = cache.Load(job.key); kept.has_value()) {
      const Loaded loaded = Load(*kept, job.shared_bytes);
      if (loaded.function != nullptr) {
        CountRunTimeCompilation("kept", SecondsSince(begin));
        return job.kernel->Finish(loaded.function, "a compiled kernel that was kept");
      }
    }
    const ChildLimits limits = {setting.compiler.empty() ? ProgramBesideLibrary() : setting.compiler, setting.wall_time,
                                setting.memory_bytes};
    const StatusOr<std::string> cubin = CompileInChild(job.request, limits);
    Loaded loaded;
    if (cubin.ok()) loaded = Load(*cubin, job.shared_bytes);
    const double seconds = SecondsSince(begin);
    const std::string time = TimeText(seconds);
    CountRunTimeCompilation(loaded.function != nullptr ? "compiled" : "failed", seconds);
    if (loaded.function == nullptr) {
      const std::string why = cubin.ok() ? loaded.error : std::string(cubin.status().message());
      LogRunTimeCompilation(LogLevel::kWarning, "expression is interpreted, as its kernel was not compiled",
                            {{"kernel", job.key}, {"after", time}, {"reason", why}});
      return job.kernel->Finish(nullptr, absl::StrCat("it is interpreted, as compiling failed: ", why));
    }
    cache.Store(job.key, *cubin);
    LogRunTimeCompilation(LogLevel::kInfo, "kernel of an expression compiled", {{"kernel", job.key}, {"time", time}});
    job.kernel->Finish(loaded.function, absl::StrCat("compiled in ", time));
  }

  Mutex mutex_;
  CondVar has_jobs_;
  std::deque<Job> jobs_ VICINAL_GUARDED_BY(mutex_);
  std::map<std::pair<std::string, int>, std::shared_ptr<CompiledKernel>> kernels_ VICINAL_GUARDED_BY(mutex_);
  bool started_ VICINAL_GUARDED_BY(mutex_) = false;
};

std::shared_ptr<CompiledKernel> FindCompiledKernel(const TileProgram& program, int tile, int64_t shared_bytes,
                                                   int ordinal) {
  static auto* const kernels = new CompiledKernels;
  return kernels->Find(program, tile, shared_bytes, ordinal);
}

}  // namespace vicinal::cuda
