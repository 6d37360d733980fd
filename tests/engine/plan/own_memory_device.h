// SPDX-License-Identifier: Apache-2.0
// A device with memory of its own, without a GPU: the CPU's kernels behind a device whose memory nobody may touch but
// copies and kernels, while they run. Whoever takes its pointers for the host's ends the test at once; kernels check
// that they were not given the host's.
#ifndef VICINAL_TESTS_ENGINE_PLAN_OWN_MEMORY_DEVICE_H_
#define VICINAL_TESTS_ENGINE_PLAN_OWN_MEMORY_DEVICE_H_

#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/mutex.h"
#include "engine/kernels/registry.h"

namespace vicinal::testing {

// Open to all while an Opened of it lives. Thread-safe: while one thread has it open, others may touch it unnoticed.
class GuardedMemory {
 public:
  static constexpr size_t kBytes = size_t{1} << 28;

  GuardedMemory() {
    void* mapped = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    VICINAL_CHECK(mapped != MAP_FAILED);
    begin_ = static_cast<char*>(mapped);
  }
  ~GuardedMemory() { munmap(begin_, kBytes); }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  // 64-byte aligned, never given out again; null when there is no more.
  void* Take(size_t bytes) {
    const size_t room = (bytes + 63) / 64 * 64;
    const MutexLock lock(&mutex_);
    if (room > kBytes - used_) return nullptr;
    used_ += room;
    return begin_ + used_ - room;
  }
  bool Holds(const void* data) const {
    const MutexLock lock(&mutex_);
    return data >= begin_ && data <= begin_ + used_;
  }

  class Opened {
   public:
    explicit Opened(GuardedMemory& memory) : memory_(memory) { memory_.AddOpen(1); }
    ~Opened() { memory_.AddOpen(-1); }
    Opened(const Opened&) = delete;
    Opened& operator=(const Opened&) = delete;

   private:
    GuardedMemory& memory_;
  };

 private:
  void AddOpen(int count) {
    const MutexLock lock(&mutex_);
    const bool was_open = open_ > 0;
    open_ += count;
    if (was_open == (open_ > 0)) return;
    VICINAL_CHECK(mprotect(begin_, kBytes, open_ > 0 ? PROT_READ | PROT_WRITE : PROT_NONE) == 0);
  }

  char* begin_ = nullptr;
  mutable Mutex mutex_;
  size_t used_ VICINAL_GUARDED_BY(mutex_) = 0;
  int open_ VICINAL_GUARDED_BY(mutex_) = 0;  // how many Opened live
};

class OwnMemoryDevice;

class OwnMemoryContext final : public DeviceContext {
 public:
  explicit OwnMemoryContext(OwnMemoryDevice& device);

  Device& device() override;
  ThreadPool* thread_pool() override { return nullptr; }
  Status Synchronize() override { return OkStatus(); }
  Status CopyRowsToHost(float* host, ConstMatrixView src, const int64_t* rows, int64_t count) override;
  bool launches_only() const override { return true; }
  StatusOr<std::unique_ptr<DeviceTimer>> MakeTimer(int) override {
    class Timer final : public DeviceTimer {
      Status Mark(int) override { return OkStatus(); }
      StatusOr<double> Seconds(int, int) const override { return 1e-3; }
    };
    return std::unique_ptr<DeviceTimer>(std::make_unique<Timer>());
  }
  Status SendPieces(void* dst, std::span<const HostPiece> pieces) override;
  Status GatherSparseRows(const CsrView& src, const int64_t* rows, const SparseRowsOut& out) override;

  GuardedMemory& memory() const { return memory_; }
  DeviceContext& cpu() { return *cpu_; }

  bool fail_sends = false;
  int sends = 0;
  int64_t sent_bytes = 0;

 private:
  OwnMemoryDevice& device_;
  GuardedMemory& memory_;
  const std::unique_ptr<DeviceContext> cpu_;
};

class OwnMemoryDevice final : public Device {
 public:
  static constexpr int kThreads = 2;  // that its kernels run on

  DeviceKind kind() const override { return DeviceKind::kCuda; }
  std::string name() const override { return "own:0"; }
  std::string description() const override { return "memory of its own"; }
  StatusOr<Buffer> Allocate(size_t bytes) override {
    void* data = memory_.Take(bytes);
    if (data == nullptr) return ResourceExhausted("OUT_OF_MEMORY", "no more", std::chrono::seconds(1));
    allocated_ += static_cast<int64_t>(bytes);
    return Buffer(this, data, bytes);
  }
  Status CopyFromHost(void* dst, const void* host, size_t bytes) override { return Copy(dst, host, bytes); }
  Status CopyToHost(void* host, const void* src, size_t bytes) override { return Copy(host, src, bytes); }
  Status CopyOnDevice(void* dst, const void* src, size_t bytes) override { return Copy(dst, src, bytes); }
  std::unique_ptr<DeviceContext> CreateContext() override { return std::make_unique<OwnMemoryContext>(*this); }
  int64_t allocated_bytes() const override { return allocated_; }

  GuardedMemory& memory() { return memory_; }
  Device& cpu() { return *cpu_; }

 private:
  void Free(void*, size_t bytes) override { allocated_ -= static_cast<int64_t>(bytes); }
  Status Copy(void* to, const void* from, size_t bytes) {
    const GuardedMemory::Opened opened(memory_);
    if (bytes > 0) std::memcpy(to, from, bytes);
    return OkStatus();
  }

  GuardedMemory memory_;
  const std::unique_ptr<Device> cpu_ = MakeCpuDevice(kThreads);
  std::atomic<int64_t> allocated_{0};
};

inline OwnMemoryContext::OwnMemoryContext(OwnMemoryDevice& device)
    : device_(device), memory_(device.memory()), cpu_(device.cpu().CreateContext()) {}

inline Device& OwnMemoryContext::device() { return device_; }

inline Status OwnMemoryContext::CopyRowsToHost(float* host, ConstMatrixView src, const int64_t* rows, int64_t count) {
  const GuardedMemory::Opened opened(memory_);
  return cpu_->CopyRowsToHost(host, src, rows, count);
}

inline Status OwnMemoryContext::SendPieces(void* dst, std::span<const HostPiece> pieces) {
  if (fail_sends) return Internal("the bus is full");
  ++sends;
  const GuardedMemory::Opened opened(memory_);
  char* to = static_cast<char*>(dst);
  for (const HostPiece& piece : pieces) {
    if (piece.bytes > 0) std::memcpy(to, piece.data, piece.bytes);
    to += piece.room();
    sent_bytes += static_cast<int64_t>(piece.bytes);
  }
  return OkStatus();
}

inline Status OwnMemoryContext::GatherSparseRows(const CsrView& src, const int64_t* rows, const SparseRowsOut& out) {
  VICINAL_CHECK(memory_.Holds(src.row_ptr) && memory_.Holds(rows) && memory_.Holds(out.row_ptr));
  const GuardedMemory::Opened opened(memory_);
  for (int64_t r = 0; r < out.rows; ++r) {
    const int64_t from = src.row_ptr[rows[r]], at = out.row_ptr[r], count = out.row_ptr[r + 1] - at;
    VICINAL_CHECK(count == src.row_ptr[rows[r] + 1] - from && at + count <= out.nnz);
    for (int64_t e = 0; e < count; ++e) {
      if (out.col != nullptr) out.col[at + e] = src.col[from + e];
      if (out.value != nullptr) out.value[at + e] = src.value[from + e];
    }
  }
  return OkStatus();
}

// Whether all that `args` says of where to read and write is in `memory`.
template <class Args>
bool IsThere(const GuardedMemory& memory, const Args& args) {
  bool there = true;
  const auto look = [&](const void* data) { there = there && (data == nullptr || memory.Holds(data)); };
  const auto look_csr = [&](const CsrView& csr) { look(csr.row_ptr), look(csr.col), look(csr.value); };
  look(args.dst.data);
  look(args.epilogue.row_scale), look(args.epilogue.bias), look(args.epilogue.residual.data);
  if constexpr (requires { args.adjacency; }) look_csr(args.adjacency);
  if constexpr (requires { args.src.data; }) look(args.src.data);
  if constexpr (requires { args.src.row_ptr; }) look_csr(args.src);
  if constexpr (requires { args.src_scale; }) look(args.src_scale);
  if constexpr (requires { args.index; }) look(args.a.data), look(args.index), look_csr(args.sparse);
  if constexpr (requires { args.score_dst; }) look(args.value.data), look(args.score_src.data), look(args.query.data);
  if constexpr (requires { args.sources; }) {
    for (const ConstMatrixView& source : args.sources) look(source.data);
    for (const ConstMatrixView& target : args.targets) look(target.data);
    for (const void* const parameter : *args.parameters) look(parameter);
    look(args.edge.values);
  }
  return there;
}

// A kernel of the CPU as one of the device.
template <class K>
class KernelThere : public K {
 public:
  using typename K::Args;
  using typename K::Problem;

  explicit KernelThere(const K& kernel) : kernel_(kernel) {}
  std::string_view name() const override { return kernel_.name(); }
  DeviceKind device() const override { return DeviceKind::kCuda; }
  DeclaredOrder declared_order() const override { return kernel_.declared_order(); }
  bool fallback_only() const override { return kernel_.fallback_only(); }
  Refusal WhyUnsupported(const Problem& problem) const override { return kernel_.WhyUnsupported(problem); }
  bool whole_graph_only() const override { return kernel_.whole_graph_only(); }
  // Callers know of no threads on such a device.
  size_t ScratchBytes(const Problem& problem, const KernelConfig& config, int) const override {
    return kernel_.ScratchBytes(problem, config, OwnMemoryDevice::kThreads);
  }
  Status Run(DeviceContext& context, const Args& args, void* scratch) const override {
    auto& there = static_cast<OwnMemoryContext&>(context);
    VICINAL_CHECK(IsThere(there.memory(), args));
    const GuardedMemory::Opened opened(there.memory());
    return kernel_.Run(there.cpu(), args, scratch);
  }

 protected:
  const K& kernel_;
};

template <class K>
class WeightedKernelThere final : public KernelThere<K> {
 public:
  using KernelThere<K>::KernelThere;

  size_t PackedBytes(int64_t out_width, int64_t in_width) const override {
    return this->kernel_.PackedBytes(out_width, in_width);
  }
  void Pack(ConstMatrixView weight, void* packed) const override { this->kernel_.Pack(weight, packed); }
};

// Adds those of `cpu`, which outlives them, to `there`.
template <class K>
void AddKernelsThere(const OperationKernels<K>& cpu, OperationKernels<K>* there) {
  for (const auto& entry : cpu.kernels()) {
    const K& kernel = entry->kernel();
    if constexpr (requires { kernel.PackedBytes(1, 1); }) {
      there->Add(std::make_unique<WeightedKernelThere<K>>(kernel));
    } else {
      there->Add(std::make_unique<KernelThere<K>>(kernel));
    }
  }
}

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_PLAN_OWN_MEMORY_DEVICE_H_
