// SPDX-License-Identifier: Apache-2.0
// The ordered list of kernels per operation: best first, reference last. Plans use the first kernel of the device that
// supports the problem, or only the forced one if a kernel is forced by name. Filled explicitly (RegisterCpuKernels, a
// backend's function), never by static initialisers. Owned by the Engine, filled before it serves, immutable
// afterwards; launch counters are atomic.
#ifndef VICINAL_ENGINE_KERNELS_REGISTRY_H_
#define VICINAL_ENGINE_KERNELS_REGISTRY_H_

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/base/status.h"
#include "engine/kernels/kernel.h"
#include "engine/kernels/kernel_aliases.h"

namespace vicinal {

namespace internal {
// Prints the message and ends the process.
[[noreturn]] void RegistrationFailed(const std::string& message);
}  // namespace internal

// A registered kernel with its launch counter, which proves which kernels ran.
template <class K>
class RegisteredKernel {
 public:
  explicit RegisteredKernel(std::unique_ptr<const K> kernel) : kernel_(std::move(kernel)) {}

  const K& kernel() const { return *kernel_; }
  Status Launch(DeviceContext& context, const typename K::Args& args, void* scratch) const {
    CountLaunch();
    return kernel_->Run(context, args, scratch);
  }
  // Counts a launch that does not call Launch: a replay of a recording.
  void CountLaunch() const { launches_.fetch_add(1, std::memory_order_relaxed); }
  int64_t launches() const { return launches_.load(std::memory_order_relaxed); }

 private:
  std::unique_ptr<const K> kernel_;
  mutable std::atomic<int64_t> launches_{0};
};

template <class K>
struct KernelChoice {
  const RegisteredKernel<K>* kernel = nullptr;
  std::vector<KernelRefusal> refusals;  // of the kernels before it, in order
};

// The kernels of one operation.
template <class K>
class OperationKernels {
 public:
  explicit OperationKernels(std::string_view operation) : operation_(operation) {}

  std::string_view operation() const { return operation_; }
  // Ends the process if the kernel's reduction order conflicts with another's (WhyOrdersConflict): this is a bug, and
  // two orders with one id would be mistaken for equal bits.
  void Add(std::unique_ptr<const K> kernel) {
    for (const auto& entry : kernels_) CheckOrders(entry->kernel(), *kernel);
    kernels_.push_back(std::make_unique<RegisteredKernel<K>>(std::move(kernel)));
  }
  const std::vector<std::unique_ptr<RegisteredKernel<K>>>& kernels() const { return kernels_; }

  // The first kernel of `device` that supports `problem`. If `forced` is not empty: that kernel, or INVALID_ARGUMENT
  // (KERNEL_UNKNOWN, or KERNEL_REFUSED with the kernel's reason). Former names are accepted (kernel_aliases.h).
  StatusOr<KernelChoice<K>> Choose(const typename K::Problem& problem, DeviceKind device,
                                   std::string_view forced) const {
    const std::string_view wanted = CurrentKernelName(operation_, forced);
    if (!forced.empty()) VICINAL_RETURN_IF_ERROR(Find(device, forced).status());
    KernelChoice<K> choice;
    for (const auto& entry : kernels_) {
      const K& kernel = entry->kernel();
      if (kernel.device() != device || (!wanted.empty() && kernel.name() != wanted)) continue;
      Refusal refusal = kernel.WhyUnsupported(problem);
      if constexpr (requires { kernel.WhyProductUnsupported(problem); }) {
        if (refusal.empty() && problem.out_width > 0) refusal = kernel.WhyProductUnsupported(problem);
      }
      if (refusal.empty()) {
        choice.kernel = entry.get();
        return choice;
      }
      choice.refusals.push_back({std::string(kernel.name()), std::move(refusal)});
    }
    return NoKernel(choice.refusals);
  }

  // The kernel of `device` with that name, or that former name. INVALID_ARGUMENT (KERNEL_UNKNOWN): there is none.
  StatusOr<const K*> Find(DeviceKind device, std::string_view name) const {
    const std::string_view wanted = CurrentKernelName(operation_, name);
    std::string names;
    for (const auto& entry : kernels_) {
      const K& kernel = entry->kernel();
      if (kernel.device() != device) continue;
      if (kernel.name() == wanted) return &kernel;
      absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(kernel.name()));
    }
    return InvalidArgument(
        "KERNEL_UNKNOWN", Field(),
        absl::StrCat("there is no ", operation_, " kernel ", Quoted(name), " on this device; there are: ", names));
  }

 private:
  void CheckOrders(const K& known, const K& added) const {
    const DeclaredOrder first = known.declared_order(), second = added.declared_order();
    std::string why = WhyOrdersConflict(operation_, first, second);
    if (why.empty() && known.device() == added.device() && first.standard && second.standard && !(first == second)) {
      why = absl::StrCat(operation_, " has two standard reduction orders on one device");
    }
    if (!why.empty()) {
      internal::RegistrationFailed(absl::StrCat("kernel '", std::string(added.name()), "' conflicts with '",
                                                std::string(known.name()), "': ", why));
    }
  }

  std::string Field() const { return absl::StrCat("execution.kernels[", operation_, "]"); }

  Status NoKernel(const std::vector<KernelRefusal>& refusals) const {
    if (refusals.empty()) {
      return InvalidArgument("KERNEL_REFUSED", Field(),
                             absl::StrCat("no ", operation_,
                                          " kernel runs on this device; a server without a GPU runs "
                                          "it on the CPU"));
    }
    std::string reasons;
    for (const KernelRefusal& r : refusals)
      absl::StrAppend(&reasons, reasons.empty() ? "" : "; ", r.kernel, ": ", r.reason);
    return InvalidArgument("KERNEL_REFUSED", Field(),
                           absl::StrCat("no ", operation_, " kernel supports this: ", reasons));
  }

  std::string operation_;
  std::vector<std::unique_ptr<RegisteredKernel<K>>> kernels_;
};

struct KernelRegistry {
  OperationKernels<AggregateKernel> aggregate{kOperationName<AggregateProblem>};
  OperationKernels<AttentionKernel> attention{kOperationName<AttentionProblem>};
  OperationKernels<MessageReduceKernel> message_reduce{kOperationName<MessageReduceProblem>};
  OperationKernels<ExpressionKernel> expression{kOperationName<ExpressionProblem>};
  OperationKernels<EdgeScoresKernel> edge_scores{kOperationName<EdgeScoresProblem>};
  OperationKernels<DenseUpdateKernel> dense_update{kOperationName<DenseUpdateProblem>};
  OperationKernels<SparseUpdateKernel> sparse_update{kOperationName<SparseUpdateProblem>};
  OperationKernels<SparseAggregateUpdateKernel> sparse_aggregate_update{kOperationName<SparseAggregateUpdateProblem>};
  OperationKernels<RowwiseKernel> rowwise{kOperationName<RowwiseProblem>};

  // Calls f(operation_kernels) for each of the above, in that order.
  template <class F>
  void ForEachOperation(F&& f) const {
    f(aggregate), f(attention), f(message_reduce), f(expression), f(edge_scores), f(dense_update), f(sparse_update),
        f(sparse_aggregate_update), f(rowwise);
  }
};

// All CPU kernels, best first: kernels/cpu/register_cpu.cc.
void RegisterCpuKernels(KernelRegistry& registry);

// The instruction set that the vectorised CPU kernels use on this machine: "AVX3_ZEN4", "AVX2", ...
std::string CpuInstructionSet();

}  // namespace vicinal

#endif  // VICINAL_ENGINE_KERNELS_REGISTRY_H_
