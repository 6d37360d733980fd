// SPDX-License-Identifier: Apache-2.0
// A backend without a GPU, built several times: a good one, ones that are wrong in one way each, and one whose device
// is lost when it next waits for work after the file named by VICINAL_FAKE_LOST_FILE appeared. Its device is the CPU's.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>

#include "engine/base/error.h"
#include "engine/kernels/backend.h"

namespace {

class FakeAggregate final : public vicinal::AggregateKernel {
 public:
  std::string_view name() const override { return "fake"; }
  vicinal::DeviceKind device() const override { return vicinal::DeviceKind::kCuda; }
  vicinal::DeclaredOrder declared_order() const override { return {"even_odd_blocks", 1, true}; }
  vicinal::Refusal WhyUnsupported(const vicinal::AggregateProblem&) const override { return {}; }
  vicinal::Status Run(vicinal::DeviceContext&, const vicinal::AggregateArgs&, void*) const override {
    return vicinal::OkStatus();
  }
};

#if defined(FAKE_BACKEND_LOSING)

// One device of the process; once lost, for good.
std::atomic<bool> lost{false};

vicinal::Status Health() {
  if (!lost.load()) return vicinal::OkStatus();
  vicinal::ErrorDetail detail;
  detail.reason = vicinal::kDeviceLostReason;
  return vicinal::MakeError(vicinal::StatusCode::kInternal, "the device fell off the bus", detail);
}

class LosingContext final : public vicinal::DeviceContext {
 public:
  LosingContext(vicinal::Device& device, std::unique_ptr<vicinal::DeviceContext> cpu)
      : device_(device), cpu_(std::move(cpu)) {}
  vicinal::Device& device() override { return device_; }
  vicinal::ThreadPool* thread_pool() override { return cpu_->thread_pool(); }
  vicinal::Status Synchronize() override {
    const char* file = std::getenv("VICINAL_FAKE_LOST_FILE");
    if (file != nullptr && access(file, F_OK) == 0) lost.store(true);
    return Health();
  }
  vicinal::Status CopyRowsToHost(float* host, vicinal::ConstMatrixView src, const int64_t* rows,
                                 int64_t count) override {
    VICINAL_RETURN_IF_ERROR(Health());
    return cpu_->CopyRowsToHost(host, src, rows, count);
  }

 private:
  vicinal::Device& device_;
  const std::unique_ptr<vicinal::DeviceContext> cpu_;
};

class LosingDevice final : public vicinal::Device {
 public:
  vicinal::DeviceKind kind() const override { return vicinal::DeviceKind::kCpu; }
  std::string name() const override { return "cuda:0"; }
  std::string description() const override { return "a device to be lost"; }
  vicinal::StatusOr<vicinal::Buffer> Allocate(size_t bytes) override { return cpu_->Allocate(bytes); }
  vicinal::Status CopyFromHost(void* dst, const void* host, size_t bytes) override {
    VICINAL_RETURN_IF_ERROR(::Health());
    return cpu_->CopyFromHost(dst, host, bytes);
  }
  vicinal::Status CopyToHost(void* host, const void* src, size_t bytes) override {
    VICINAL_RETURN_IF_ERROR(::Health());
    return cpu_->CopyToHost(host, src, bytes);
  }
  vicinal::Status CopyOnDevice(void* dst, const void* src, size_t bytes) override {
    VICINAL_RETURN_IF_ERROR(::Health());
    return cpu_->CopyOnDevice(dst, src, bytes);
  }
  std::unique_ptr<vicinal::DeviceContext> CreateContext() override {
    return std::make_unique<LosingContext>(*this, cpu_->CreateContext());
  }
  vicinal::Status Health() override { return ::Health(); }
  int64_t allocated_bytes() const override { return cpu_->allocated_bytes(); }

 private:
  void Free(void*, size_t) override {}  // buffers are the CPU device's

  const std::unique_ptr<vicinal::Device> cpu_ = vicinal::MakeCpuDevice(1);
};

#endif

int DeviceCount() { return 1; }
[[maybe_unused]] vicinal::StatusOr<std::unique_ptr<vicinal::Device>> OpenDevice(int ordinal,
                                                                                const vicinal::DeviceLimits&) {
  if (ordinal != 0) return vicinal::NotFound("device", "fake:" + std::to_string(ordinal));
#if defined(FAKE_BACKEND_LOSING)
  return std::unique_ptr<vicinal::Device>(std::make_unique<LosingDevice>());
#else
  return vicinal::MakeCpuDevice(1);
#endif
}
void RegisterKernels(vicinal::KernelRegistry& registry, vicinal::Device*) {
  registry.aggregate.Add(std::make_unique<FakeAggregate>());
}

const vicinal::BackendTable kTable = {
#if defined(FAKE_BACKEND_WRONG_VERSION)
    vicinal::kBackendInterfaceVersion + 1,
#else
    vicinal::kBackendInterfaceVersion,
#endif
#if defined(FAKE_BACKEND_WRONG_BUILD)
    "0.0.0 of another compiler",
#else
    vicinal::BackendBuildId(),
#endif
    "fake",
    &DeviceCount,
#if defined(FAKE_BACKEND_EMPTY_ENTRY)
    nullptr,
#else
    &OpenDevice,
#endif
    &RegisterKernels};

}  // namespace

#if defined(FAKE_BACKEND_NO_SYMBOL)
extern "C" const vicinal::BackendTable* another_name() { return &kTable; }
#else
extern "C" const vicinal::BackendTable* vicinal_backend() { return &kTable; }
#endif
