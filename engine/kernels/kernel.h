// SPDX-License-Identifier: Apache-2.0
// A kernel is one implementation of an operation for one kind of device. It reports whether it supports a problem (and
// if not, why), how much scratch it needs, and runs. Kernels are stateless and immutable: one object serves all plans
// and threads. Every kernel that is not forced by name is deterministic: a fixed reduction order per row, no float
// atomics, for any number of threads.
//
// A kernel may use a data structure of its own beside the CSR (LayoutName, MakeLayout). It is made once per adjacency
// of a graph, kept with the graph, and passed to every run over the whole graph. Receptive fields, whose adjacencies
// exist for one request only, have no layouts.
#ifndef VICINAL_ENGINE_KERNELS_KERNEL_H_
#define VICINAL_ENGINE_KERNELS_KERNEL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/device/device.h"
#include "engine/kernels/adjacency_layout.h"
#include "engine/kernels/expression.h"
#include "engine/kernels/kernel_preparation.h"
#include "engine/kernels/operations.h"
#include "engine/kernels/parameter_range.h"
#include "engine/kernels/reduction_order.h"
#include "engine/kernels/work_shape.h"

namespace vicinal {

// Empty: the problem is supported. Otherwise the reason: "only widths that are multiples of 4; this is 7".
using Refusal = std::string;

// The name of the operation that a problem belongs to.
template <class Problem>
inline constexpr std::string_view kOperationName;
template <>
inline constexpr std::string_view kOperationName<AggregateProblem> = "aggregate";
template <>
inline constexpr std::string_view kOperationName<AttentionProblem> = "attention";
template <>
inline constexpr std::string_view kOperationName<MessageReduceProblem> = "message_reduce";
template <>
inline constexpr std::string_view kOperationName<ExpressionProblem> = "expression";
template <>
inline constexpr std::string_view kOperationName<EdgeScoresProblem> = "edge_scores";
template <>
inline constexpr std::string_view kOperationName<DenseUpdateProblem> = "dense_update";
template <>
inline constexpr std::string_view kOperationName<SparseUpdateProblem> = "sparse_update";
template <>
inline constexpr std::string_view kOperationName<SparseAggregateUpdateProblem> = "sparse_aggregate_update";
template <>
inline constexpr std::string_view kOperationName<RowwiseProblem> = "rowwise";

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
  virtual Refusal WhyUnsupported(const Problem& problem) const = 0;
  // Why it supports no problem at all on this machine: the device lacks an instruction, a library is missing, or at
  // present there is no memory to load it. Empty: it supports some. Otherwise WhyUnsupported gives this reason for
  // every problem.
  virtual Refusal WhyUnfit() const { return {}; }
  // Why tuning need not try it on `problem`: it is known to be slower, or supports no such problem. Asked before
  // WhyUnsupported, and cheap where that is not: it uses no device and loads no library.
  virtual Refusal WhyNotTried(const Problem& problem) const { return WhyUnsupported(problem); }
  // The work on the device that WhyUnsupported(problem) would do, in parts. Null: none, or it has been done. Cheap.
  // Tuning carries it out between requests; whoever calls WhyUnsupported before waits for all of it.
  virtual std::unique_ptr<KernelPreparation> Prepare(const Problem& problem) const {
    (void)problem;
    return nullptr;
  }
  // Names of the values of a KernelConfig, in their order: "prefetch_edges", "feature_tile".
  virtual std::vector<std::string_view> ParameterNames() const { return {}; }
  // The values of each that a client may force, in the same order. Candidates and SearchSpace keep to them.
  virtual std::vector<ParameterRange> ParameterRanges() const {
    return std::vector<ParameterRange>(ParameterNames().size(), ParameterRange::AtLeast(-1));
  }
  // Configurations worth measuring for `problem`, the default first; at least one. REQUIRES: WhyUnsupported(problem) is
  // empty.
  virtual std::vector<KernelConfig> Candidates(const Problem& problem) const {
    (void)problem;
    return {KernelConfig()};
  }
  // The name and version of the order in which the terms of a row are added. Kernels with equal bits declare the same.
  virtual DeclaredOrder declared_order() const = 0;
  // The numbers in the problem and configuration that change this order. Their meaning never changes for one name and
  // version.
  virtual std::vector<int64_t> OrderParameters(const Problem& problem, const KernelConfig& config) const {
    (void)problem, (void)config;
    return {};
  }
  // The id of the order (reduction_order.h): equal ids mean equal bits. 0: the device's standard order, without nonzero
  // parameters. A plan with any other order has a numerics revision of its own. A fallback defines the standard order
  // of the problems that only it supports. It returns 0 for others, too, because it runs those only if a request forces
  // it.
  int64_t ReductionOrder(const Problem& problem, const KernelConfig& config) const {
    const DeclaredOrder order = declared_order();
    const std::vector<int64_t> parameters = OrderParameters(problem, config);
    const bool plain = std::all_of(parameters.begin(), parameters.end(), [](int64_t p) { return p == 0; });
    return (order.standard || fallback_only()) && plain ? 0
                                                        : ReductionOrderId(kOperationName<Problem>, order, parameters);
  }
  // Predicted seconds of a run on a graph of that shape; nullopt: no prediction. The tuner tries candidates in the
  // order of predictions, drops those that are far behind, and measures the rest. Ratios matter more than absolute
  // values. REQUIRES: WhyUnsupported(problem) is empty.
  virtual std::optional<double> PredictSeconds(const Problem& problem, const KernelConfig& config,
                                               const WorkShape& shape) const {
    (void)problem, (void)config, (void)shape;
    return std::nullopt;
  }
  // The values of each parameter, in the order of ParameterNames, whose combinations the tuning strategy `estimated`
  // searches (tune/estimate.h). Empty: the kernel has no model of its settings; the strategy ranks Candidates instead.
  // REQUIRES: as PredictSeconds.
  virtual std::vector<std::vector<int32_t>> SearchSpace(const Problem& problem) const {
    (void)problem;
    return {};
  }
  // The model that ranks these settings, lower is better: comparable between settings of this kernel on one problem and
  // shape only. nullopt: the setting exceeds a limit of the model or of the device. REQUIRES: as PredictSeconds.
  virtual std::optional<double> ModelLatency(const Problem& problem, const KernelConfig& config,
                                             const WorkShape& shape) const {
    return PredictSeconds(problem, config, shape);
  }
  // Floats that one lane adds before it meets others, in that setting. How many a lane may have is measured on small
  // communities (WorkShape::lane_floats). 0: the model has no such limit.
  virtual double LaneFloats(const Problem& problem, const KernelConfig& config) const {
    (void)problem, (void)config;
    return 0.0;
  }
  // True: serves only if no other kernel supports the problem, or if a request forces it. Not tuned.
  virtual bool fallback_only() const { return false; }
  // False: bits may differ from run to run. Such a kernel runs only if a request forces it; such a configuration is not
  // measured.
  virtual bool deterministic(const KernelConfig& config) const {
    (void)config;
    return true;
  }

  // Name of the layout that a run needs beside the adjacency; empty: none. It encodes everything that the layout
  // depends on except the adjacency: problems and configurations with the same name share a layout.
  virtual std::string LayoutName(const Problem& problem, const KernelConfig& config) const {
    (void)problem, (void)config;
    return {};
  }
  // Makes that layout. FAILED_PRECONDITION, with a reason: the layout does not pay for this adjacency, or is
  // impossible. REQUIRES: LayoutName is not empty.
  virtual StatusOr<AdjacencyLayoutRef> MakeLayout(const Problem& problem, const KernelConfig& config,
                                                  LayoutSource& source) const {
    (void)problem, (void)config, (void)source;
    return AdjacencyLayoutRef();
  }
  // Upper bound of size_bytes() of any layout of an adjacency of that size; for memory reservations.
  virtual int64_t LayoutBytesBound(int64_t rows, int64_t edges) const {
    (void)rows, (void)edges;
    return 0;
  }
  // True: supports whole graphs only, because it needs a layout, or because the reduction order of a row depends on
  // other rows. A plan with such a kernel computes no receptive fields.
  virtual bool whole_graph_only() const { return false; }

  // Bytes of scratch for one run with `num_threads` threads; granted 64-byte aligned, uninitialised.
  virtual size_t ScratchBytes(const Problem& problem, const KernelConfig& config, int num_threads) const {
    (void)problem, (void)config, (void)num_threads;
    return 0;
  }
  // REQUIRES: WhyUnsupported(args.problem) is empty; views match the problem; args.layout was made by MakeLayout from
  // args.adjacency for a problem and configuration with the same LayoutName. Does not allocate. On a GPU it only
  // launches.
  virtual Status Run(DeviceContext& context, const Args& args, void* scratch) const = 0;
};

// Kernels that multiply by weights choose the weights' layout: they are packed once, when planning, on the host.
template <class ProblemT, class ArgsT>
class WeightedKernel : public Kernel<ProblemT, ArgsT> {
 public:
  // Bytes of the packed form of W [out_width, in_width].
  virtual size_t PackedBytes(int64_t out_width, int64_t in_width) const = 0;
  // Packs W [H, F] into `packed` (host memory, 64-byte aligned).
  virtual void Pack(ConstMatrixView weight, void* packed) const = 0;
};

// Few aggregation kernels multiply by weights, and only for narrow rows.
class AggregateKernel : public WeightedKernel<AggregateProblem, AggregateArgs> {
 public:
  // Why it cannot fuse the product of problem.out_width; empty: it can. Called if out_width is not 0, in addition to
  // WhyUnsupported, which considers the sums alone.
  virtual Refusal WhyProductUnsupported(const AggregateProblem& problem) const {
    (void)problem;
    return "it does not multiply what it sums up";
  }
  size_t PackedBytes(int64_t out_width, int64_t in_width) const override {
    (void)out_width, (void)in_width;
    return 0;
  }
  void Pack(ConstMatrixView weight, void* packed) const override { (void)weight, (void)packed; }
};
using AttentionKernel = Kernel<AttentionProblem, AttentionArgs>;
using MessageReduceKernel = WeightedKernel<MessageReduceProblem, MessageReduceArgs>;
using ExpressionKernel = WeightedKernel<ExpressionProblem, ExpressionArgs>;
using EdgeScoresKernel = Kernel<EdgeScoresProblem, EdgeScoresArgs>;
using DenseUpdateKernel = WeightedKernel<DenseUpdateProblem, DenseUpdateArgs>;
using SparseUpdateKernel = WeightedKernel<SparseUpdateProblem, SparseUpdateArgs>;
using SparseAggregateUpdateKernel = WeightedKernel<SparseAggregateUpdateProblem, SparseAggregateUpdateArgs>;
using RowwiseKernel = Kernel<RowwiseProblem, RowwiseArgs>;

}  // namespace vicinal

#endif  // VICINAL_ENGINE_KERNELS_KERNEL_H_
