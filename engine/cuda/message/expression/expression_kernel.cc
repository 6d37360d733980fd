// SPDX-License-Identifier: Apache-2.0
// Message functions as expressions: a kernel of the operation expression.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/cuda/message/expression/encode_program.h"
#include "engine/cuda/message/expression/expression.h"
#include "engine/cuda/runtime/cuda_kernel.h"
#include "engine/kernels/expression_form.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda {
namespace {

static_assert(kExpressionMatrices == kMaxExpressionInputs);

// The instructions and results of a program, one after the other.
class TileForm final : public ExpressionForm {
 public:
  explicit TileForm(const TileProgram& program) : shape_(program.shape) {
    static_assert(sizeof(TileInstruction) % sizeof(float) == 0 && sizeof(TileInstruction) % alignof(TileResult) == 0);
    static_assert(sizeof(TileResult) % sizeof(float) == 0);
    const size_t instructions = program.instructions.size() * sizeof(TileInstruction);
    const size_t results = program.results.size() * sizeof(TileResult);
    bytes_.resize((instructions + results) / sizeof(float));
    if (instructions > 0) std::memcpy(bytes_.data(), program.instructions.data(), instructions);
    std::memcpy(bytes_.data() + instructions / sizeof(float), program.results.data(), results);
  }

  const TileShape& shape() const { return shape_; }

 private:
  const TileShape shape_;
};

class EdgePrograms final : public CudaWeightedKernel<ExpressionKernel>, public ExpressionFormMaker {
 public:
  explicit EdgePrograms(const GpuLimits& limits) : CudaWeightedKernel("edge_programs"), limits_(limits) {}

  DeclaredOrder declared_order() const override { return {"expression_rows", 1, true}; }
  Refusal WhyUnsupported(const ExpressionProblem& problem) const override {
    return WhySizeUnsupported(problem.rows, problem.edges, problem.code->width);
  }
  std::vector<std::string_view> ParameterNames() const override { return {"edge_tile", "edges_per_block"}; }
  std::vector<KernelConfig> Candidates(const ExpressionProblem& problem) const override {
    const TileShape shape = ShapeOfProgram(*problem.code);
    std::vector<KernelConfig> candidates = {KernelConfig()};
    for (const int32_t tile : {16, 32, 64}) {
      if (!TileFits(shape, tile, limits_)) continue;
      for (const int32_t edges : {0, 512}) candidates.push_back({{tile, shape.over_edges ? edges : 0}});
    }
    return candidates;
  }
  size_t ScratchBytes(const ExpressionProblem& problem, const KernelConfig& config, int) const override {
    return PlanOf(ShapeOfProgram(*problem.code), problem, config).scratch_bytes();
  }
  std::shared_ptr<const ExpressionForm> MakeForm(const EdgeCode& code,
                                                 const std::vector<const void*>& parameters) const override {
    return std::make_shared<const TileForm>(EncodeProgram(code, parameters));
  }

 protected:
  cudaError_t Launch(const ExpressionArgs& args, const LaunchTarget& target, void* scratch) const override {
    if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
    const auto& formed = static_cast<const FormedParameters&>(*args.parameters);
    const TileShape& shape = static_cast<const TileForm&>(*formed.form).shape();
    const ExpressionPlan plan = PlanOf(shape, args.problem, args.config);
    ExpressionParams params = ParamsOf(args, shape, formed.bytes);
    const cudaError_t error = PlaceExpression(plan, target, scratch, &params);
    return error != cudaSuccess ? error : LaunchInterpreter(params, plan, target);
  }

 private:
  ExpressionPlan PlanOf(const TileShape& shape, const ExpressionProblem& problem, const KernelConfig& config) const {
    const int64_t edges = std::max(config.values[1], 0);
    return PlanExpression(shape, problem.rows, problem.edges, config.values[0], edges, limits_);
  }

  static ExpressionParams ParamsOf(const ExpressionArgs& args, const TileShape& shape, const void* program) {
    ExpressionParams params;
    params.shape = shape;
    params.instructions = static_cast<const TileInstruction*>(program);
    params.results = reinterpret_cast<const TileResult*>(params.instructions + shape.instructions);
    params.adjacency = args.adjacency;
    for (int i = 0; i < kMaxExpressionInputs; ++i) {
      params.sources[i] = {args.sources[i].data, args.sources[i].stride};
      params.targets[i] = {args.targets[i].data, args.targets[i].stride};
    }
    params.edge = args.edge;
    params.dst = args.dst;
    params.epilogue = args.epilogue;
    return params;
  }

  const GpuLimits limits_;
};

}  // namespace

void AddEdgePrograms(KernelRegistry& registry, const GpuLimits& limits) {
  registry.expression.Add(std::make_unique<EdgePrograms>(limits));
}

}  // namespace vicinal::cuda
