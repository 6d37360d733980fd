// SPDX-License-Identifier: Apache-2.0
// The second half of making a node a launch: how its values' memory, or the model's input, becomes its arguments'
// views.
#include <variant>

#include "engine/plan/build/plan_builder.h"

namespace vicinal::internal {

void PlanBuilder::BindRowwise(const Node& node, RowwiseArgs* args) {
  if (node.kind == NodeKind::kDensify) {
    built_.sparse_inputs.push_back(&args->sparse);
    return;
  }
  BindInput(node.inputs[0], &args->a);
  if (node.kind == NodeKind::kMax || node.kind == NodeKind::kGate) BindInput(node.inputs[1], &args->b);
}

void PlanBuilder::Bind(const Node& node, Launch* launch) {
  if (node.kind == NodeKind::kNarrow) {
    RowwiseArgs& args = std::get<Bound<RowwiseKernel>>(launch->bound).args;
    BindInput(node.inputs[0], &args.a);
    args.dst16 = ViewOf16(node.output);
    return;
  }
  std::visit(
      [&](auto& bound) {
        bound.args.epilogue.row_scale = row_scale_[current_];
        bound.args.epilogue.bias = bias_[current_];
        BindEpilogue(node.epilogue, &bound.args.epilogue);
        bound.args.dst = ViewOf(node.output);
      },
      launch->bound);
  if (auto* dense = std::get_if<Bound<DenseUpdateKernel>>(&launch->bound)) {
    BindInput(node.inputs[0], &dense->args.src);
  } else if (auto* sparse = std::get_if<Bound<SparseUpdateKernel>>(&launch->bound)) {
    built_.sparse_inputs.push_back(&sparse->args.src);
    built_.input_nnz.push_back(&sparse->args.problem.nnz);
  } else if (auto* aggregate = std::get_if<Bound<AggregateKernel>>(&launch->bound)) {
    if (aggregate->args.problem.storage == Storage::kFloat32) {
      BindInput(node.inputs[0], &aggregate->args.src);
    } else {
      aggregate->args.src16 = ViewOf16(node.inputs[0]);
    }
    BindEpilogue(node.inner, &aggregate->args.row_epilogue);
  } else if (auto* both = std::get_if<Bound<SparseAggregateUpdateKernel>>(&launch->bound)) {
    built_.sparse_inputs.push_back(&both->args.src);
    built_.input_nnz.push_back(&both->args.problem.nnz);
  } else if (auto* edge_mlp = std::get_if<Bound<MessageReduceKernel>>(&launch->bound)) {
    BindInput(node.inputs[0], &edge_mlp->args.src);
    BindInput(node.inputs[1], &edge_mlp->args.target);
  } else if (auto* rowwise = std::get_if<Bound<RowwiseKernel>>(&launch->bound)) {
    BindRowwise(node, &rowwise->args);
  } else if (auto* attention = std::get_if<Bound<AttentionKernel>>(&launch->bound)) {
    BindInput(node.inputs[0], &attention->args.value);
    if (node.attention.kind != AttentionKind::kGat) {
      BindInput(node.inputs[1], &attention->args.query);
      if (node.attention.kind == AttentionKind::kDot) BindInput(node.inputs[2], &attention->args.key);
    } else {
      const int64_t heads = node.attention.heads;
      attention->args.score_src = ViewOf(node.inputs[1]).columns(0, heads);
      attention->args.score_dst = ViewOf(node.inputs[1]).columns(heads, heads);
    }
  }
}

}  // namespace vicinal::internal
