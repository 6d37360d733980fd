// SPDX-License-Identifier: Apache-2.0
// Message functions as expressions: a kernel of the operation expression. Programs are interpreted, and compiled in the
// background; the bits are the same.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/cuda/common/alignment.h"
#include "engine/cuda/compile/fuse_program.h"
#include "engine/cuda/compile/make_kernels.h"
#include "engine/cuda/message/expression/column_parts.h"
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
  // `compiled`: the shape of the kernel's program, which stores fewer values.
  TileForm(const TileProgram& program, const TileShape& compiled, CompiledKernelUse kernel)
      : shape_(program.shape), compiled_shape_(compiled), kernel_(std::move(kernel)) {
    static_assert(sizeof(TileInstruction) % sizeof(float) == 0 && sizeof(TileInstruction) % alignof(TileResult) == 0);
    static_assert(sizeof(TileResult) % sizeof(float) == 0);
    const size_t instructions = program.instructions.size() * sizeof(TileInstruction);
    const size_t results = program.results.size() * sizeof(TileResult);
    bytes_.resize((instructions + results) / sizeof(float));
    if (instructions > 0) std::memcpy(bytes_.data(), program.instructions.data(), instructions);
    std::memcpy(bytes_.data() + instructions / sizeof(float), program.results.data(), results);
    for (const TileInstruction& i : program.instructions) {
      for (const TileOperand* const operand : {&i.a, &i.b})
        rows_in_packs_ &= InPacks(operand->row, 0, sizeof(float), 4);
    }
  }

  std::string Describe() const override { return kernel_ != nullptr ? kernel_->Describe() : std::string(); }
  bool compiled() const override { return function() != nullptr; }

  const TileShape& shape() const { return shape_; }
  const TileShape& compiled_shape() const { return compiled_shape_; }
  // Null: the program is interpreted.
  const void* function() const { return kernel_ != nullptr ? kernel_->function() : nullptr; }
  const CompiledKernelUse& kernel() const { return kernel_; }
  // Whether all parameters that are rows are aligned to 16 bytes.
  bool rows_in_packs() const { return rows_in_packs_; }

 private:
  const TileShape shape_, compiled_shape_;
  const CompiledKernelUse kernel_;
  bool rows_in_packs_ = true;
};

// A use of the kernel that is compiled for a program.
class TileCompilation final : public ExpressionCompilation {
 public:
  explicit TileCompilation(CompiledKernelUse kernel) : kernel_(std::move(kernel)) {}

  bool Await(std::chrono::milliseconds at_most) const override { return kernel_->AwaitFor(at_most); }
  std::string WhyInterpreted() const override {
    return kernel_->function() != nullptr ? std::string() : kernel_->Describe();
  }

 private:
  const CompiledKernelUse kernel_;
};

// What is known of the speed of compiled programs was measured with tiles of so many edges.
constexpr int kFastTile = 64;

// Parameters, in the order of their names.
enum Parameter : size_t { kTile, kEdges, kCompile, kColumns };
// Values of the parameter `compile`.
enum Compilation : int32_t { kNeverCompile = -1, kCompileMeanwhile = 0, kCompileFirst = 1 };

class EdgePrograms final : public CudaWeightedKernel<ExpressionKernel>, public ExpressionFormMaker {
 public:
  // `device`: null where its kernels are only described.
  EdgePrograms(const GpuLimits& limits, CudaDevice* device)
      : CudaWeightedKernel("edge_programs"), limits_(limits), device_(device) {}

  DeclaredOrder declared_order() const override { return {"expression_rows", 2, true}; }
  Refusal WhyUnsupported(const ExpressionProblem& problem) const override {
    return WhySizeUnsupported(problem.rows, problem.edges, problem.code->width);
  }
  std::vector<std::string_view> ParameterNames() const override {
    return {"edge_tile", "edges_per_block", "compile", "columns_per_block"};
  }
  std::vector<ParameterRange> ParameterRanges() const override {
    return {ParameterRange::OneOf({16, 32, 64}), ParameterRange::AtLeast(0),
            ParameterRange::OneOf({kNeverCompile, kCompileFirst}), ParameterRange::AtLeast(0)};
  }
  std::vector<KernelConfig> Candidates(const ExpressionProblem& problem) const override {
    // Few, for each size of tile is compiled before it is measured: of compiled kernels, which have fewer registers.
    const FusedProgram fused = FuseProgram(ProgramWithoutParameters(*problem.code));
    const TileShape& shape = fused.program.shape;
    std::vector<KernelConfig> candidates = {KernelConfig()};
    if (shape.over_edges) candidates.push_back({{0, 512}});
    const int32_t usual = PlanOf(shape, problem, KernelConfig()).tile;
    for (const int32_t tile : {64, 32, 16})
      if (tile != usual && TileFits(shape, tile, limits_)) candidates.push_back({{tile}});
    if (const int32_t columns = ColumnsInCache(fused, problem.cols, limits_); columns != 0) {
      candidates.push_back({{0, 0, 0, columns}});
    }
    return candidates;
  }
  size_t ScratchBytes(const ExpressionProblem& problem, const KernelConfig& config, int) const override {
    // Interpreted or compiled, whichever takes more.
    const TileProgram program = ProgramWithoutParameters(*problem.code);
    return std::max(PlanOf(program.shape, problem, Interpreted(config)).scratch_bytes(),
                    PlanOf(FuseProgram(program).program.shape, problem, config).scratch_bytes());
  }
  std::shared_ptr<const ExpressionForm> MakeForm(const ExpressionArgs& args,
                                                 const std::vector<const void*>& parameters) const override {
    const TileProgram program = EncodeProgram(*args.problem.code, parameters);
    const auto is_null = [](const void* parameter) { return parameter == nullptr; };
    const bool counted = !parameters.empty() && std::all_of(parameters.begin(), parameters.end(), is_null);
    if (counted || !MayCompile(args.config)) return std::make_shared<const TileForm>(program, program.shape, nullptr);
    const FusedProgram fused = FuseProgram(program);
    auto kernel = FindKernel(fused, args.problem, args.config);
    if (args.config.values[kCompile] == kCompileFirst) kernel->Await();
    return std::make_shared<const TileForm>(program, fused.program.shape, std::move(kernel));
  }
  std::unique_ptr<ExpressionCompilation> Compile(const ExpressionProblem& problem,
                                                 const KernelConfig& config) const override {
    if (!MayCompile(config)) return nullptr;
    // Sources say which parameters there are, not where.
    const std::vector<const void*> somewhere(problem.code->is_matrix.size(), this);
    const FusedProgram fused = FuseProgram(EncodeProgram(*problem.code, somewhere));
    return std::make_unique<TileCompilation>(FindKernel(fused, problem, config));
  }
  std::string WhyNotFast(const ExpressionProblem& problem, const KernelConfig& config) const override {
    const TileShape shape = FuseProgram(ProgramWithoutParameters(*problem.code)).program.shape;
    const int tile = PlanOf(shape, problem, KernelConfig()).tile;
    if (tile < kFastTile) {
      return absl::StrCat("the values of ", kFastTile, " edges, which it is fast with, do not fit twice into ",
                          limits_.multiprocessor_shared_bytes, " bytes of shared memory");
    }
    if (!MayCompile(config)) return "it interprets programs here";
    return WhyNothingCompiles(device_);
  }

 protected:
  cudaError_t Launch(const ExpressionArgs& args, const LaunchTarget& target, void* scratch) const override {
    if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
    const auto& formed = static_cast<const FormedParameters&>(*args.parameters);
    const auto& form = static_cast<const TileForm&>(*formed.form);
    const void* const function = form.function();
    const TileShape& shape = function == nullptr ? form.shape() : form.compiled_shape();
    const ExpressionPlan plan =
        PlanOf(shape, args.problem, function == nullptr ? Interpreted(args.config) : args.config);
    ExpressionParams params = ParamsOf(args, shape, formed.bytes);
    params.in_packs &= form.rows_in_packs();
    const cudaError_t error = PlaceExpression(plan, target, scratch, &params);
    if (error != cudaSuccess) return error;
    if (function == nullptr) return LaunchInterpreter(params, plan, target);
    RecordedCode::Launched(form.kernel());
    return LaunchCompiled(function, params, plan, target);
  }

 private:
  ExpressionPlan PlanOf(const TileShape& shape, const ExpressionProblem& problem, const KernelConfig& config) const {
    const ExpressionSettings settings = {config.values[kTile], std::max(config.values[kEdges], 0),
                                         config.values[kColumns]};
    return PlanExpression(shape, problem.rows, problem.edges, settings, limits_);
  }
  // What the interpreter obeys. It stores every value whole, so parts of the columns repeat its work: it has none while
  // it stands in for a compiled kernel.
  static KernelConfig Interpreted(KernelConfig config) {
    if (config.values[kCompile] >= kCompileMeanwhile) config.values[kColumns] = 0;
    return config;
  }

  bool MayCompile(const KernelConfig& config) const {
    return device_ != nullptr && config.values[kCompile] >= kCompileMeanwhile;
  }
  // REQUIRES: MayCompile(config).
  CompiledKernelUse FindKernel(const FusedProgram& program, const ExpressionProblem& problem,
                               const KernelConfig& config) const {
    return FindCompiledKernel(program, PlanOf(program.program.shape, problem, config), device_);
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
    params.in_packs = true;
    for (int i = 0; i < kMaxExpressionInputs; ++i) {
      params.in_packs &= InPacks(params.sources[i]) && InPacks(params.targets[i]);
    }
    params.edge = args.edge;
    params.dst = args.dst;
    params.epilogue = args.epilogue;
    return params;
  }

  const GpuLimits limits_;
  CudaDevice* const device_;
};

}  // namespace

void AddEdgePrograms(KernelRegistry& registry, CudaDevice* device) {
  const GpuLimits limits = device != nullptr ? device->limits() : GpuLimits();
  registry.expression.Add(std::make_unique<EdgePrograms>(limits, device));
}

}  // namespace vicinal::cuda
