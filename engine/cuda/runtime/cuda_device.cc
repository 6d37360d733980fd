// SPDX-License-Identifier: Apache-2.0
// Opening, memory and copies of a GPU. The memory pool keeps freed memory (its release threshold is unlimited), so that
// replacing a graph needs no driver allocation. Pageable memory is copied through two pinned halves: one is filled
// while the other is transferred.
#include "engine/cuda/runtime/cuda_device.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/error.h"
#include "engine/cuda/runtime/code_version.h"
#include "engine/cuda/runtime/cuda_error.h"

namespace vicinal::cuda {
namespace {

constexpr size_t kStagingHalf = size_t{4} << 20;

// For example "7.5" for 75.
std::string Capability(int capability) { return absl::StrCat(capability / 10, ".", capability % 10); }

// The optional hardware features in use, for example " with asynchronous copies, bulk copies".
std::string PathsOf(const GpuLimits& limits) {
  std::string paths;
  const auto name = [&](bool used, std::string_view path) {
    if (used) absl::StrAppend(&paths, paths.empty() ? " with " : ", ", std::string(path));
  };
  name(limits.async_copies(), "asynchronous copies");
  name(limits.narrow_products(), "bfloat16 and TF32 products");
  name(limits.bulk_copies(), "bulk copies");
  name(limits.overlapping_launches(), "overlapping launches");
  name(limits.wgmma(), "wgmma");
  return paths.empty() ? " without newer instructions" : paths;
}

}  // namespace

StatusOr<std::unique_ptr<Device>> CudaDevice::Open(int ordinal, const DeviceLimits& limits) {
  std::unique_ptr<CudaDevice> device(new CudaDevice(ordinal));
  VICINAL_RETURN_IF_ERROR(device->Initialize(limits));
  return std::unique_ptr<Device>(std::move(device));
}

Status CudaDevice::FindLimits(const DeviceLimits& limits) {
  cudaDeviceProp properties;
  VICINAL_RETURN_IF_ERROR(CudaStatus(cudaGetDeviceProperties(&properties, ordinal_), absl::StrCat("opening ", name())));
  const auto at_most = [](int has, int limit) { return limit > 0 ? std::min(has, limit) : has; };
  const int capability = 10 * properties.major + properties.minor;
  const std::string whose = absl::StrCat(name(), " (", properties.name, ")");
  if (capability < kOldestSupported) {
    return FailedPrecondition("DEVICE_UNSUPPORTED",
                              absl::StrCat(whose, " has compute capability ", Capability(capability), "; kernels need ",
                                           Capability(kOldestSupported), " or later"));
  }
  VICINAL_RETURN_IF_ERROR(MakeCurrent());
  int code = 0;
  if (FindCodeVersion(&code) != cudaSuccess) {
    cudaGetLastError();
    return FailedPrecondition(
        "DEVICE_UNSUPPORTED",
        absl::StrCat("this build has no code for ", whose, ", compute capability ", Capability(capability),
                     "; build with -DVICINAL_CUDA_ARCHITECTURES=", capability, " or all"));
  }
  limits_.capability = limits.capability > 0 ? limits.capability : capability;
  limits_.code = std::min(code, limits_.capability);
  limits_.multiprocessors = properties.multiProcessorCount;
  limits_.block_shared_bytes = at_most(static_cast<int>(properties.sharedMemPerBlockOptin), limits.block_shared_bytes);
  limits_.multiprocessor_shared_bytes =
      at_most(static_cast<int>(properties.sharedMemPerMultiprocessor), limits.multiprocessor_shared_bytes);
  limits_.multiprocessor_threads = at_most(properties.maxThreadsPerMultiProcessor, limits.multiprocessor_threads);
  limits_.l2_bytes = properties.l2CacheSize;
  pci_address_ =
      absl::StrFormat("%04x:%02x:%02x.0", properties.pciDomainID, properties.pciBusID, properties.pciDeviceID);
  description_ = absl::StrCat(properties.name, ", ", limits_.multiprocessors, " multiprocessors, ",
                              properties.totalGlobalMem >> 20, " MiB, compute capability ",
                              Capability(limits_.capability), ", kernels compiled for ", Capability(limits_.code),
                              PathsOf(limits_), ", ", limits_.block_shared_bytes >> 10,
                              " KiB of shared memory per block, ", limits_.l2_bytes >> 20, " MiB of L2");
  return OkStatus();
}

Status CudaDevice::Initialize(const DeviceLimits& limits) {
  VICINAL_RETURN_IF_ERROR(FindLimits(limits));
  cudaMemPoolProps pool_properties = {};
  pool_properties.allocType = cudaMemAllocationTypePinned;
  pool_properties.location = {cudaMemLocationTypeDevice, ordinal_};
  VICINAL_RETURN_IF_ERROR(CudaStatus(cudaMemPoolCreate(&pool_, &pool_properties), "making the memory pool"));
  uint64_t keep = std::numeric_limits<uint64_t>::max();
  VICINAL_RETURN_IF_ERROR(
      CudaStatus(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep), "setting up the memory pool"));
  MutexLock lock(&mutex_);
  VICINAL_RETURN_IF_ERROR(
      CudaStatus(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making the copy stream"));
  VICINAL_RETURN_IF_ERROR(
      CudaStatus(cudaMallocHost(reinterpret_cast<void**>(&staging_), 2 * kStagingHalf), "allocating pinned memory"));
  for (cudaEvent_t& event : half_done_) {
    VICINAL_RETURN_IF_ERROR(CudaStatus(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event"));
  }
  return OkStatus();
}

CudaDevice::~CudaDevice() {
  (void)MakeCurrent();
  MutexLock lock(&mutex_);
  if (stream_ != nullptr) cudaStreamSynchronize(stream_);
  for (cudaEvent_t event : half_done_) {
    if (event != nullptr) cudaEventDestroy(event);
  }
  if (staging_ != nullptr) cudaFreeHost(staging_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
  if (pool_ != nullptr) cudaMemPoolDestroy(pool_);
}

std::string CudaDevice::name() const { return absl::StrCat("cuda:", ordinal_); }

Status CudaDevice::MakeCurrent() const { return CudaStatus(cudaSetDevice(ordinal_), absl::StrCat("using ", name())); }

StatusOr<Buffer> CudaDevice::Allocate(size_t bytes) {
  if (bytes == 0) return Buffer(this, nullptr, 0);
  VICINAL_RETURN_IF_ERROR(MakeCurrent());
  const std::string what = absl::StrCat("allocating ", bytes, " bytes on ", name());
  void* data = nullptr;
  MutexLock lock(&mutex_);
  VICINAL_RETURN_IF_ERROR(CudaStatus(cudaMallocFromPoolAsync(&data, bytes, pool_, stream_), what));
  // Waits, so that any stream may use the memory immediately.
  VICINAL_RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(stream_), what));
  allocated_.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  return Buffer(this, data, bytes);
}

void CudaDevice::Free(void* data, size_t bytes) {
  if (data == nullptr) return;
  MutexLock lock(&mutex_);
  // An error here means that the device is lost; its memory is freed when the process exits.
  if (MakeCurrent().ok() && AwaitContexts().ok()) cudaFreeAsync(data, stream_);
  allocated_.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed);
}

Status CudaDevice::AwaitContexts() {
  for (CudaContext* context : contexts_) {
    if (context->done_ == nullptr) continue;
    // During a recording, BeginRecording has recorded the event after everything that was launched before.
    if (!context->recording_) {
      VICINAL_RETURN_IF_ERROR(
          CudaStatus(cudaEventRecord(context->done_, context->target_.stream), "recording an event"));
    }
    VICINAL_RETURN_IF_ERROR(CudaStatus(cudaStreamWaitEvent(stream_, context->done_, 0), "waiting for an event"));
  }
  return OkStatus();
}

std::function<bool()> CudaDevice::MarkLaunched() {
  const auto lost = [] { return false; };
  MutexLock lock(&mutex_);
  cudaEvent_t event = nullptr;
  if (!MakeCurrent().ok() || !AwaitContexts().ok()) return lost;
  if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess) return lost;
  const std::shared_ptr<CUevent_st> owned(event, [](cudaEvent_t made) { cudaEventDestroy(made); });
  if (cudaEventRecord(event, stream_) != cudaSuccess) return lost;
  return [owned] { return cudaEventSynchronize(owned.get()) == cudaSuccess; };
}

Status CudaDevice::BeginRecording(CudaContext* context) {
  MutexLock lock(&mutex_);
  VICINAL_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(context->done_, context->target_.stream), "recording an event"));
  // Thread-local mode: calls of other threads, which may allocate and copy meanwhile, do not invalidate the capture.
  VICINAL_RETURN_IF_ERROR(CudaStatus(cudaStreamBeginCapture(context->target_.stream, cudaStreamCaptureModeThreadLocal),
                                     "beginning to record"));
  context->recording_ = true;
  return OkStatus();
}

void CudaDevice::EndRecording(CudaContext* context) {
  MutexLock lock(&mutex_);
  context->recording_ = false;
}

Status CudaDevice::CopyFromHost(void* dst, const void* host, size_t bytes) {
  if (bytes == 0) return OkStatus();
  VICINAL_RETURN_IF_ERROR(MakeCurrent());
  MutexLock lock(&mutex_);
  VICINAL_RETURN_IF_ERROR(AwaitContexts());
  int half = 0;
  for (size_t offset = 0; offset < bytes; offset += kStagingHalf, half ^= 1) {
    const size_t count = std::min(kStagingHalf, bytes - offset);
    char* staging = staging_ + half * kStagingHalf;
    VICINAL_RETURN_IF_ERROR(CudaStatus(cudaEventSynchronize(half_done_[half]), "copying to the device"));
    std::memcpy(staging, static_cast<const char*>(host) + offset, count);
    VICINAL_RETURN_IF_ERROR(
        CudaStatus(cudaMemcpyAsync(static_cast<char*>(dst) + offset, staging, count, cudaMemcpyHostToDevice, stream_),
                   "copying to the device"));
    VICINAL_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(half_done_[half], stream_), "copying to the device"));
  }
  return CudaStatus(cudaStreamSynchronize(stream_), "copying to the device");
}

Status CudaDevice::CopyToHost(void* host, const void* src, size_t bytes) {
  if (bytes == 0) return OkStatus();
  VICINAL_RETURN_IF_ERROR(MakeCurrent());
  MutexLock lock(&mutex_);
  VICINAL_RETURN_IF_ERROR(AwaitContexts());
  const size_t chunks = (bytes + kStagingHalf - 1) / kStagingHalf;
  // Chunk i is transferred while chunk i - 1 is copied to `host`.
  for (size_t i = 0; i <= chunks; ++i) {
    if (i < chunks) {
      const size_t offset = i * kStagingHalf;
      VICINAL_RETURN_IF_ERROR(
          CudaStatus(cudaMemcpyAsync(staging_ + (i % 2) * kStagingHalf, static_cast<const char*>(src) + offset,
                                     std::min(kStagingHalf, bytes - offset), cudaMemcpyDeviceToHost, stream_),
                     "copying from the device"));
      VICINAL_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(half_done_[i % 2], stream_), "copying from the device"));
    }
    if (i > 0) {
      const size_t offset = (i - 1) * kStagingHalf;
      VICINAL_RETURN_IF_ERROR(CudaStatus(cudaEventSynchronize(half_done_[(i - 1) % 2]), "copying from the device"));
      std::memcpy(static_cast<char*>(host) + offset, staging_ + ((i - 1) % 2) * kStagingHalf,
                  std::min(kStagingHalf, bytes - offset));
    }
  }
  return OkStatus();
}

Status CudaDevice::CopyOnDevice(void* dst, const void* src, size_t bytes) {
  if (bytes == 0) return OkStatus();
  VICINAL_RETURN_IF_ERROR(MakeCurrent());
  MutexLock lock(&mutex_);
  VICINAL_RETURN_IF_ERROR(AwaitContexts());
  VICINAL_RETURN_IF_ERROR(
      CudaStatus(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, stream_), "copying on the device"));
  return CudaStatus(cudaStreamSynchronize(stream_), "copying on the device");
}

std::unique_ptr<DeviceContext> CudaDevice::CreateContext() { return std::make_unique<CudaContext>(*this); }

std::unique_ptr<DeviceContext> CudaDevice::CreateSmallContext() {
  return std::make_unique<CudaContext>(*this, /*urgent=*/true);
}

// Every call returns a sticky error, so any call will do.
Status CudaDevice::Health() {
  VICINAL_RETURN_IF_ERROR(MakeCurrent());
  MutexLock lock(&mutex_);
  const cudaError_t error = cudaStreamQuery(stream_);
  return IsStickyError(error) ? CudaStatus(error, absl::StrCat("looking after ", name())) : OkStatus();
}

void CudaDevice::Register(CudaContext* context) {
  MutexLock lock(&mutex_);
  contexts_.push_back(context);
}

void CudaDevice::Unregister(CudaContext* context) {
  MutexLock lock(&mutex_);
  contexts_.erase(std::remove(contexts_.begin(), contexts_.end(), context), contexts_.end());
}

}  // namespace vicinal::cuda
