// SPDX-License-Identifier: Apache-2.0
// A kernel is one way to do one operation on one kind of device. It says yes or no to a problem (no with a reason), how
// much scratch it needs, and runs. Kernels are stateless and immutable: the same object serves all plans and threads.
// Every kernel here is deterministic: fixed order of evaluation per row, no float atomics, whatever the number of
// threads.
#ifndef VICINAL_ENGINE_KERNELS_KERNEL_H_
#define VICINAL_ENGINE_KERNELS_KERNEL_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/device/device.h"
#include "engine/kernels/operations.h"

namespace vicinal {

// Empty means "can do it"; else why not, in a sentence: "only widths that are multiples of 4; this is 7".
using Refusal = std::string;

// The base of all kernels of one operation.
template <class ProblemT, class ArgsT>
class Kernel {
 public:
  using Problem = ProblemT;
  using Args = ArgsT;

  virtual ~Kernel() = default;
  // Strategy, unique per operation and device: "reference", "simd_rows".
  virtual std::string_view name() const = 0;
  virtual DeviceKind device() const = 0;
  virtual Refusal Refuses(const Problem& problem) const = 0;
  // Names of the values of a KernelConfig, in their order: "prefetch_edges", "feature_tile".
  virtual std::vector<std::string_view> ParameterNames() const { return {}; }
  // Configurations worth measuring for `problem`, the default first; at least one. REQUIRES: Refuses(problem) is empty.
  virtual std::vector<KernelConfig> Candidates(const Problem& problem) const {
    (void)problem;
    return {KernelConfig()};
  }
  // Bytes of scratch for one run with `num_threads` threads; granted 64-byte aligned, uninitialised.
  virtual size_t ScratchBytes(const Problem& problem, const KernelConfig& config, int num_threads) const {
    (void)problem, (void)config, (void)num_threads;
    return 0;
  }
  // REQUIRES: Refuses(args.problem) was empty; views match the problem. Does not allocate. On a GPU it only launches.
  virtual Status Run(DeviceContext& context, const Args& args, void* scratch) const = 0;
};

// Kernels that multiply by weights choose the layout: packed once, when planning, on the host.
template <class ProblemT, class ArgsT>
class WeightedKernel : public Kernel<ProblemT, ArgsT> {
 public:
  // Bytes of the packed form of W [out_width, in_width].
  virtual size_t PackedBytes(int64_t out_width, int64_t in_width) const = 0;
  // Packs W [H, F] into `packed` (host memory, 64-byte aligned).
  virtual void Pack(ConstMatrixView weight, void* packed) const = 0;
};

using AggregateKernel = Kernel<AggregateProblem, AggregateArgs>;
using AttentionKernel = Kernel<AttentionProblem, AttentionArgs>;
using MessageReduceKernel = WeightedKernel<MessageReduceProblem, MessageReduceArgs>;
using EdgeScoresKernel = Kernel<EdgeScoresProblem, EdgeScoresArgs>;
using DenseUpdateKernel = WeightedKernel<DenseUpdateProblem, DenseUpdateArgs>;
using SparseUpdateKernel = WeightedKernel<SparseUpdateProblem, SparseUpdateArgs>;
using SparseAggregateUpdateKernel = WeightedKernel<SparseAggregateUpdateProblem, SparseAggregateUpdateArgs>;
using RowwiseKernel = Kernel<RowwiseProblem, RowwiseArgs>;

}  // namespace vicinal

#endif  // VICINAL_ENGINE_KERNELS_KERNEL_H_
