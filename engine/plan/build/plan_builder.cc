// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/build/plan_builder.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/plan/build/kernel_choice.h"
#include "engine/plan/node_kinds/expression.h"
#include "engine/plan/node_kinds/propagate.h"
#include "engine/plan/rewrite/fold.h"
#include "engine/plan/rewrite/rewrite.h"

namespace vicinal::internal {
namespace {

Status CheckForcedKernels(const ForcedKernels& forced, const KernelRegistry& registry, DeviceKind device) {
  std::string operations;
  std::vector<std::string_view> known;
  Status status;
  registry.ForEachOperation([&](const auto& operation) {
    known.push_back(operation.operation());
    absl::StrAppend(&operations, operations.empty() ? "" : ", ", std::string(operation.operation()));
    if (status.ok()) status = CheckForced(forced, operation, device);
  });
  for (const auto& [operation, kernel] : forced) {
    if (std::find(known.begin(), known.end(), operation) == known.end()) {
      return InvalidArgument("OPERATION_UNKNOWN", absl::StrCat("execution.kernels[", Printable(operation), "]"),
                             absl::StrCat("there is no operation ", Quoted(operation), " for the forced kernel ",
                                          Quoted(kernel), "; there are: ", operations));
    }
  }
  return status;
}

// Calls f(&weight) for each weight of `node`; it may be null.
template <class NodeType, class F>
void ForEachWeight(NodeType& node, F&& f) {
  f(&node.weight);
  for (auto& layer : node.message_layers) f(&layer.weight);
}

// Frees the numbers of a weight that is packed, and keeps its shape.
void ForgetWeight(ProductWeightRef* weight) {
  if (*weight == nullptr) return;
  auto shape = std::make_shared<ProductWeight>();
  shape->rows = (*weight)->rows;
  shape->cols = (*weight)->cols;
  *weight = std::move(shape);
}

}  // namespace

Status PlanBuilder::CheckRequest() const {
  const PlanRequest& request = context_.request;
  VICINAL_RETURN_IF_ERROR(CheckForcedKernels(request.forced, context_.registry, context_.device.kind()));
  if (request.features.cols != request.model->feature_count) {
    return FailedPrecondition(
        "FEATURE_WIDTH", absl::StrCat("the features have ", request.features.cols, " columns, but the model reads ",
                                      request.model->feature_count, "; use a feature set of that width"));
  }
  return OkStatus();
}

Status PlanBuilder::Rewrite() {
  const PlanRequest& request = context_.request;
  const PreparedGraph& graph = *request.graph;
  Program& program = context_.program;
  Status stopped;
  const std::function<bool()> stop = [&] { return !(stopped = context_.CheckStop()).ok(); };
  program = RewriteModel(*request.model, request.output, request.features.sparse,
                         {graph.num_nodes(), graph.num_edges(), request.features.nnz}, request.features.crowded, stop);
  VICINAL_RETURN_IF_ERROR(stopped);
  if (!graph.weighted()) program = FactorWeights(std::move(program));
  if (request.precision != Storage::kFloat32) program = NarrowGathers(std::move(program), request.precision);
  // FuseProducts works on a copy, because WhyProductUnsupported reads the program as it is.
  program = FuseProducts(program, [this](const Node& node, int64_t out_width) {
    return WhyProductUnsupported(&context_, node, out_width);
  });
  if (MayCompileExpressions(context_)) {
    // A copy, as above.
    program = ExpressMessages(program, [this](const Node& node, const ExpressionStep& step) {
      return WhyNotExpressed(&context_, node, step);
    });
    program = MultiplyPerEdge(
        program, [this](const Node& node, const ExpressionStep& step) { return WhyNotPerEdge(&context_, node, step); });
  }
  return OkStatus();
}

int64_t PlanBuilder::PackingBytes() const {
  int64_t most = 0;
  const auto add = [&](int64_t numbers, bool plain) {
    const int64_t bytes = numbers * static_cast<int64_t>(sizeof(float));
    const int64_t packed = context_.device.kind() == DeviceKind::kCpu ? 0 : 2 * bytes;  // on the host first
    most = std::max(most, packed + (plain ? 0 : bytes));
  };
  for (const Node& node : context_.program.nodes) {
    ForEachWeight(node, [&](const ProductWeightRef* weight) {
      if (*weight != nullptr) add((*weight)->rows * (*weight)->cols, (*weight)->plain());
    });
    for (const WeightRef& parameter : node.expression.parameters)
      add(static_cast<int64_t>(parameter->values.size()), true);
  }
  return most;
}

StatusOr<PlanBuilder::PlanBytes> PlanBuilder::CountBytes() {
  CountingAllocator counter(*context_.request.graph);
  PlanLayout layout(&context_, &counter);
  VICINAL_RETURN_IF_ERROR(layout.ChooseKernels());
  const int64_t others = counter.bytes() + layout.step_bytes();
  return PlanBytes{others + layout.whole_bytes(), others + std::min(layout.whole_bytes(), layout.tiled_bytes())};
}

Status PlanBuilder::Admit(const PlanBytes& bytes, const PlanAdmission& admit) {
  Status whole = admit(bytes.whole);
  const bool no_memory =
      whole.code() == StatusCode::kResourceExhausted || whole.code() == StatusCode::kFailedPrecondition;
  if (!no_memory || bytes.tiled >= bytes.whole) return whole;
  VICINAL_RETURN_IF_ERROR(admit(bytes.tiled));
  tiled_ = true;
  return OkStatus();
}

Status PlanBuilder::LayOut(const PlanAdmission& admit) {
  while (true) {
    const size_t unfit = context_.unfit.size();
    if (admit) {
      VICINAL_ASSIGN_OR_RETURN(const PlanBytes bytes, CountBytes());
      tiled_ = false;
      VICINAL_RETURN_IF_ERROR(Admit(bytes, admit));
    }
    allocator_.emplace(context_.device, *context_.request.graph);
    layout_.emplace(&context_, &*allocator_);
    Status chosen = layout_->ChooseKernels();
    if (context_.unfit.size() == unfit) return chosen;
  }
}

StatusOr<BuiltPlan> PlanBuilder::Build(const PlanAdmission& admit) {
  VICINAL_RETURN_IF_ERROR(CheckRequest());
  if (admit) VICINAL_RETURN_IF_ERROR(admit(RewriteBytesBound(*context_.request.model)));
  VICINAL_RETURN_IF_ERROR(Rewrite());
  if (admit) VICINAL_RETURN_IF_ERROR(admit(PackingBytes()));
  VICINAL_RETURN_IF_ERROR(LayOut(admit));
  Program& program = context_.program;
  for (Node& node : program.nodes) ForEachWeight(node, ForgetWeight);
  VICINAL_RETURN_IF_ERROR(layout_->TakeArena(tiled_));
  if (tiled_) {
    program.decisions.push_back(absl::StrCat("steps run in tiles of ", TileRows(context_.request.graph->num_nodes()),
                                             " rows, with ", layout_->tiled_bytes(), " bytes of scratch in place of ",
                                             layout_->whole_bytes(), ", which were not to be had"));
  }
  BuiltPlan plan;
  layout_->Finish(&plan);
  plan.memory = allocator_->TakeMemory();
  plan.request = context_.request;
  if (program.untold > 0) program.decisions.push_back(absl::StrCat("and ", program.untold, " more such decisions"));
  MakeField(&plan);
  plan.decisions = std::move(program.decisions);
  return plan;
}

std::string PlanBuilder::WhyNoField(BuiltPlan* plan) {
  const PlanRequest& request = context_.request;
  const Device& device = context_.device;
  if (!request.graph->parts().segments.empty()) return "batches of small graphs are computed whole";
  if (device.kind() == DeviceKind::kCpu) return {};
  const RowwiseProblem gather = {RowwiseKind::kGatherRows, Reduce::kSum, request.graph->num_nodes(),
                                 request.features.sparse ? 1 : request.features.cols};
  const auto choice = context_.registry.rowwise.Choose(gather, device.kind(), {});
  if (!choice.ok()) return "no kernel of " + device.name() + " gathers rows of these features";
  plan->gather_rows = choice->kernel;
  return {};
}

void PlanBuilder::MakeField(BuiltPlan* plan) {
  plan->device = context_.device.kind();
  plan->field =
      MakeReceptiveFieldProgram(context_.program, plan->launches, context_.request, plan->device, WhyNoField(plan));
  const ReceptiveFieldShape& shape = plan->field.shape;
  context_.program.decisions.push_back(
      shape.refusal.empty() ? absl::StrCat("requests for some nodes compute only their receptive field, up to ",
                                           shape.levels.size() - 1, " steps away, if that is cheaper")
                            : absl::StrCat("every request computes the full graph: ", shape.refusal));
}

}  // namespace vicinal::internal
