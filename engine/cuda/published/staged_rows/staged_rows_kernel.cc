// SPDX-License-Identifier: Apache-2.0
// FeatGraph's SpMM template as a kernel of the operation aggregate, in which a message is the source's row. Optionally
// with hybrid partitioning by the sources' degree.
#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/cuda/common/alignment.h"
#include "engine/cuda/message/template_spmm/template_spmm.h"
#include "engine/cuda/published/staged_rows/detail/staged_edges.h"
#include "engine/cuda/runtime/cuda_kernel.h"
#include "engine/kernels/gpu_gather_cost.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda {
namespace {

constexpr int32_t kMaxDegree = 1 << 24;
// With fewer edges per source, staging its row costs more than it saves.
constexpr int64_t kMinWorthwhile = 256;

// Sources of at least this many edges are staged. 0: none.
int32_t DegreeOf(const KernelConfig& config) { return std::clamp(config.values[0], 0, kMaxDegree); }

MessageReduceProblem MessagesOf(const AggregateProblem& problem, int64_t edges) {
  MessageReduceProblem messages;
  messages.reduce = problem.reduce;
  messages.weighted = problem.weighted;
  messages.rows = problem.rows;
  messages.cols = problem.cols;
  messages.edges = edges;
  messages.width = problem.width;
  return messages;
}

// Bytes of template_spmm's scratch, which the sums of staged edges follow.
size_t RowsScratch(const AggregateProblem& problem) {
  return (MessageScratch(MessagesOf(problem, problem.edges)).bytes() + 15) / 16 * 16;
}

class TemplateSpmmAggregate final : public CudaKernel<AggregateKernel>, public LayoutCodec {
 public:
  TemplateSpmmAggregate() : CudaKernel("template_spmm") {}
  Refusal WhyUnsupported(const AggregateProblem& problem) const override {
    if (problem.storage != Storage::kFloat32) return "only float32 rows";
    if (Refusal refusal = WhyWidthUnsupported(problem.width); !refusal.empty()) return refusal;
    if (problem.rows >= kMaxItems || problem.edges >= kMaxItems) {
      return "only graphs of fewer than 2^31 rows and edges";
    }
    return {};
  }
  std::vector<std::string_view> ParameterNames() const override { return {"degree"}; }
  std::vector<ParameterRange> ParameterRanges() const override { return {ParameterRange::Between(0, kMaxDegree)}; }
  std::vector<KernelConfig> Candidates(const AggregateProblem& problem) const override {
    const int64_t mean = problem.edges / std::max<int64_t>(1, problem.cols);
    return {{}, {{static_cast<int32_t>(std::clamp<int64_t>(2 * mean, kMinWorthwhile, kMaxDegree))}}};
  }
  DeclaredOrder declared_order() const override { return {"staged_edges", 1}; }
  std::vector<int64_t> OrderParameters(const AggregateProblem&, const KernelConfig& config) const override {
    return {DegreeOf(config)};
  }
  std::optional<double> PredictSeconds(const AggregateProblem& problem, const KernelConfig&,
                                       const WorkShape& shape) const override {
    return GpuGatherSeconds(problem, shape, 1.5);
  }
  std::string LayoutName(const AggregateProblem&, const KernelConfig& config) const override {
    if (DegreeOf(config) == 0) return {};
    return NameOf(DegreeOf(config));
  }
  StatusOr<AdjacencyLayoutRef> MakeLayout(const AggregateProblem&, const KernelConfig& config,
                                          LayoutSource& source) const override {
    VICINAL_ASSIGN_OR_RETURN(const CsrView host, source.OnHost());
    const HostStagedEdges edges = BuildStagedEdges(host, DegreeOf(config), source.pool());
    if (edges.partitions() == 0) {
      return FailedPrecondition("KERNEL_REFUSED", absl::StrCat("no source has ", DegreeOf(config), " edges"));
    }
    VICINAL_ASSIGN_OR_RETURN(AdjacencyLayoutRef layout, StagedEdgesLayout::Upload(edges, source.device()));
    return layout;
  }
  int64_t LayoutBytesBound(int64_t rows, int64_t edges) const override { return StagedEdgesBytesBound(rows, edges); }
  int64_t layout_version() const override { return 1; }
  FlatLayout Flatten(const AdjacencyLayout& layout) const override {
    return static_cast<const StagedEdgesLayout&>(layout).Flatten();
  }
  StatusOr<AdjacencyLayoutRef> Unflatten(std::string_view name, const LayoutInput& input,
                                         LayoutSource& source) const override {
    int32_t degree = 0;
    const bool read = std::sscanf(std::string(name).c_str(), "sources of %" SCNd32 " edges", &degree) == 1;
    if (!read || degree < 1 || name != NameOf(degree)) return input.Bad("this kernel has no layout of that name");
    VICINAL_ASSIGN_OR_RETURN(const HostStagedEdges edges, ReadStagedEdges(input, source.adjacency()));
    VICINAL_ASSIGN_OR_RETURN(AdjacencyLayoutRef layout, StagedEdgesLayout::Upload(edges, source.device()));
    return layout;
  }
  bool whole_graph_only() const override { return true; }
  size_t ScratchBytes(const AggregateProblem& problem, const KernelConfig& config, int) const override {
    const size_t sums = static_cast<size_t>(problem.rows * PackedStride(problem.width)) * sizeof(float);
    return RowsScratch(problem) + (DegreeOf(config) == 0 ? 0 : sums);
  }

 private:
  static std::string NameOf(int32_t degree) { return absl::StrCat("sources of ", degree, " edges"); }

 protected:
  cudaError_t Launch(const AggregateArgs& args, const LaunchTarget& target, void* scratch) const override {
    if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
    MessageReduceArgs rest;
    rest.problem = MessagesOf(args.problem, args.adjacency.nnz);
    rest.adjacency = args.adjacency;
    rest.src = args.src;
    rest.dst = args.dst;
    rest.epilogue = args.epilogue;
    MessageRowsPart part;
    part.src_scale = args.src_scale;
    part.self_scale = args.self_scale;
    if (DegreeOf(args.config) > 0) {
      const StagedEdges& staged = static_cast<const StagedEdgesLayout*>(args.layout)->view();
      float* sums = reinterpret_cast<float*>(static_cast<char*>(scratch) + RowsScratch(args.problem));
      part.carried = sums;
      part.carried_stride = PackedStride(args.problem.width);
      part.degree_ptr = args.adjacency.row_ptr;
      rest.problem.edges = rest.adjacency.nnz = staged.rest_edges;
      rest.adjacency.row_ptr = staged.rest_row_ptr;
      rest.adjacency.col = staged.rest_col;
      rest.adjacency.value = staged.rest_value;
      const cudaError_t error = LaunchStagedRows(args, staged, sums, part.carried_stride, target);
      if (error != cudaSuccess) return error;
    }
    return LaunchMessageRows(rest, part, target, scratch);
  }
};

}  // namespace

void AddStagedRows(KernelRegistry& registry) { registry.aggregate.Add(std::make_unique<TemplateSpmmAggregate>()); }

}  // namespace vicinal::cuda
