// SPDX-License-Identifier: Apache-2.0
// SuperGATConv (Kim and Oh 2021): attention over in-edges per head of h = x W^T, with the scores
//   MX: leaky_relu((a_l . h_j + a_r . h_i) sigmoid(h_i . h_j))        SD: leaky_relu(h_i . h_j / sqrt(C))
// Its loss over edges that are and are not there is of training only.
#include <cmath>
#include <vector>

#include "engine/model/layers/heads.h"
#include "engine/model/layers/layers.h"
#include "engine/model/layers/message_writer.h"
#include "engine/model/layers/root_and_bias.h"

namespace vicinal::internal {
namespace {

StatusOr<DeclaredAttention> ReadAttention(const LayerContext& context, const Heads& heads, const WeightRef& weight) {
  DeclaredAttention attention;
  AttentionStep& step = attention.step;
  if (context.args.Bool("add_self_loops")) step.adjacency.loops = SelfLoops::kReplace;
  step.heads = heads.count;
  step.head_width = heads.width;
  step.negative_slope = context.args.Number("negative_slope");
  attention.input = context.input();
  attention.weights = {weight};
  if (context.args.Choice("attention_type") == "SD") {
    attention.score = AttentionScore::kSuperGatDot;
    return attention;
  }
  const std::vector<int64_t> shape = {1, heads.count, heads.width};
  VICINAL_ASSIGN_OR_RETURN(step.att_src, context.Tensor("att_l", shape, {heads.total}));
  VICINAL_ASSIGN_OR_RETURN(step.att_dst, context.Tensor("att_r", shape, {heads.total}));
  return attention;
}

int32_t SuperGatScore(const DeclaredAttention& attention, int32_t h_i, int32_t h_j, MessageWriter* write) {
  const AttentionStep& step = attention.step;
  int32_t score = write->Dot(h_i, h_j, step.heads);
  if (attention.score == AttentionScore::kSuperGatDot) {
    score = write->Multiply(score, write->Number(1.0 / std::sqrt(static_cast<double>(step.head_width))));
  } else {
    const int32_t sum =
        write->Add(write->DotRow(h_j, step.att_src, step.heads), write->DotRow(h_i, step.att_dst, step.heads));
    score = write->Multiply(sum, write->Activate(score, {ActivationKind::kSigmoid}));
  }
  return write->Activate(score, {ActivationKind::kLeakyRelu, static_cast<float>(step.negative_slope)});
}

// The mean over heads.
int32_t HeadAverage(const Heads& heads, MessageWriter* write) {
  const int32_t all = write->Aggregate(heads.total);
  int32_t sum = write->Slice(all, 0, heads.width);
  for (int64_t head = 1; head < heads.count; ++head)
    sum = write->Add(sum, write->Slice(all, head * heads.width, heads.width));
  return write->Multiply(sum, write->Number(1.0 / static_cast<double>(heads.count)));
}

StatusOr<ValueId> LowerSuperGat(const LayerContext& context) {
  VICINAL_ASSIGN_OR_RETURN(const Heads heads, ReadHeads(context));
  VICINAL_ASSIGN_OR_RETURN(WeightRef weight, context.Tensor("lin.weight", {heads.total, context.input_width()}));
  VICINAL_ASSIGN_OR_RETURN(const DeclaredAttention attention, ReadAttention(context, heads, weight));
  MessageDeclaration declaration;
  declaration.adjacency = attention.step.adjacency;
  MessageWriter write(context);
  const int32_t h_j = write.Linear(write.Source(0), weight), h_i = write.Linear(write.Target(0), weight);
  const int32_t score = SuperGatScore(attention, h_i, h_j, &write);
  declaration.results = {{EdgeReduce::kSoftmax, h_j, score}};
  if (!context.args.Bool("concat") && heads.count > 1) declaration.update = HeadAverage(heads, &write);
  VICINAL_ASSIGN_OR_RETURN(const ValueId out, write.Lower(declaration));
  context.steps.Declare(attention);
  return AddBias(context, out, heads.out);
}

}  // namespace

LayerType SuperGatConv() {
  LayerType type;
  type.name = "SuperGATConv";
  type.arguments = HeadArguments();
  AddArguments({NumberArgument("negative_slope", 0.2, 0.0, 1.0), IgnoredArgument("dropout"),
                BoolArgument("add_self_loops", true), BoolArgument("bias", true),
                ChoiceArgument("attention_type", "MX", {"MX", "SD"}), IgnoredArgument("neg_sample_ratio"),
                IgnoredArgument("edge_sample_ratio"), IgnoredArgument("is_undirected")},
               &type.arguments);
  AddArguments(MessagePassingArguments(true), &type.arguments);
  type.convolution = true;
  type.lower = LowerSuperGat;
  return type;
}

}  // namespace vicinal::internal
