// SPDX-License-Identifier: Apache-2.0
// The CPU as a device: aligned heap memory that is counted, copies that are memcpy, and contexts that own a thread
// pool.
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/device/cpu_quota.h"
#include "engine/device/device.h"

namespace vicinal {
namespace {

// A cache line and the widest vector: no aligned vector of a buffer straddles two lines.
constexpr size_t kAlignment = 64;

// Buffers lie on pages of 2 MiB where the system has them: gathered rows would otherwise miss the address cache at
// every edge (measured: bench/kernels, aggregate uniform). Such a page is taken whole, and memory budgets count what
// was asked for. So the end of a buffer lies on ordinary pages unless it fills most of one: no buffer takes more than a
// seventh beyond its size. The processor's address caches hold the pages of what is left, less than 2 MiB.
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kMostOfPage = kHugePage / 8 * 7;

// No process of today's 64-bit systems can address more; asking the allocator for it would be our bug.
constexpr size_t kMaxBytes = size_t{1} << 47;

// Cores that the scheduler lets this process use: in a container fewer than the machine has. Empty where it does not
// say.
std::vector<int> UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

// One per core, or as many as the container's limit keeps busy.
int DefaultThreads() {
  int threads = static_cast<int>(UsableCores().size());
  if (threads == 0) threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const double quota = CpuQuota();
  return quota > 0 ? std::min(threads, static_cast<int>(std::ceil(quota))) : threads;
}

// A thread for each core: then threads keep to theirs. Fewer threads than cores may have been asked for because others
// use the rest, and who knows which.
std::vector<int> CoresFor(int num_threads) {
  std::vector<int> cores = UsableCores();
  if (cores.size() != static_cast<size_t>(num_threads)) cores.clear();
  return cores;
}

// The processor's own name, where the system tells it.
std::string ProcessorName() {
  std::ifstream info("/proc/cpuinfo");
  std::string line;
  while (std::getline(info, line)) {
    if (line.rfind("model name", 0) != 0) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "processor";
}

// How many of a buffer's bytes, from its start, are to lie on pages of 2 MiB.
size_t BytesOnHugePages(size_t bytes) {
  const size_t rest = bytes % kHugePage;
  return rest < kMostOfPage ? bytes - rest : bytes - rest + kHugePage;
}

// `bytes` rounded up to the alignment they get; null when there is no memory.
void* AllocateAligned(size_t bytes) {
  if (bytes > kMaxBytes) return nullptr;
  const size_t huge = BytesOnHugePages(bytes);
  const size_t alignment = huge > 0 ? kHugePage : kAlignment;
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* data = std::aligned_alloc(alignment, rounded);
  // A wish: where it is not granted, ordinary pages serve as well.
  if (data != nullptr && huge > 0) (void)madvise(data, huge, MADV_HUGEPAGE);
  return data;
}

class CpuContext final : public DeviceContext {
 public:
  CpuContext(Device& device, int num_threads) : device_(device), pool_(num_threads, CoresFor(num_threads)) {}
  Device& device() override { return device_; }
  ThreadPool* thread_pool() override { return &pool_; }
  Status Synchronize() override { return OkStatus(); }
  Status CopyRowsToHost(float* host, ConstMatrixView src, const int64_t* rows, int64_t count) override {
    if (src.cols == 0) return OkStatus();
    const size_t row_bytes = static_cast<size_t>(src.cols) * sizeof(float);
    for (int64_t i = 0; i < count; ++i) std::memcpy(host + i * src.cols, src.row(rows[i]), row_bytes);
    return OkStatus();
  }

 private:
  Device& device_;
  ThreadPool pool_;
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(int num_threads) : num_threads_(num_threads > 0 ? num_threads : DefaultThreads()) {}
  ~CpuDevice() override { VICINAL_DCHECK(allocated_.load() == 0); }

  DeviceKind kind() const override { return DeviceKind::kCpu; }
  std::string name() const override { return "cpu"; }
  std::string description() const override {
    return absl::StrCat(ProcessorName(), ", ", num_threads_, num_threads_ == 1 ? " thread" : " threads");
  }

  StatusOr<Buffer> Allocate(size_t bytes) override {
    if (bytes == 0) return Buffer(this, nullptr, 0);
    void* data = AllocateAligned(bytes);
    if (data == nullptr) {
      return ResourceExhausted(
          "OUT_OF_MEMORY",
          absl::StrCat("the device 'cpu' has no ", bytes, " bytes left; free graphs or models, or retry"),
          std::chrono::seconds(1));
    }
    allocated_.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
    return Buffer(this, data, bytes);
  }

  Status CopyFromHost(void* dst, const void* host, size_t bytes) override {
    if (bytes > 0) std::memcpy(dst, host, bytes);
    return OkStatus();
  }
  Status CopyToHost(void* host, const void* src, size_t bytes) override {
    if (bytes > 0) std::memcpy(host, src, bytes);
    return OkStatus();
  }

  Status CopyOnDevice(void* dst, const void* src, size_t bytes) override {
    if (bytes > 0) std::memcpy(dst, src, bytes);
    return OkStatus();
  }

  std::unique_ptr<DeviceContext> CreateContext() override { return std::make_unique<CpuContext>(*this, num_threads_); }
  // One thread, which the scheduler places: the other context's threads may use all cores.
  std::unique_ptr<DeviceContext> CreateSmallContext() override { return std::make_unique<CpuContext>(*this, 1); }
  int64_t allocated_bytes() const override { return allocated_.load(std::memory_order_relaxed); }

 private:
  void Free(void* data, size_t bytes) override {
    std::free(data);
    allocated_.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  }

  const int num_threads_;
  std::atomic<int64_t> allocated_{0};
};

}  // namespace

std::unique_ptr<Device> MakeCpuDevice(int num_threads) { return std::make_unique<CpuDevice>(num_threads); }

std::unique_ptr<ThreadPool> MakeHostPool(DeviceContext& context) {
  return context.thread_pool() != nullptr ? nullptr : std::make_unique<ThreadPool>(DefaultThreads());
}

}  // namespace vicinal
