// SPDX-License-Identifier: Apache-2.0
#include "engine/model/expressions/match_steps.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace vicinal::internal {
namespace {

class Matcher {
 public:
  Matcher(const LayerContext& context, const ExpressionStep& step, const std::vector<ValueId>& inputs)
      : context_(context), step_(step), program_(*step.program), inputs_(inputs) {}

  ValueId Emit() const {
    if (program_.results.size() != 1) return -1;
    const EdgeResult& result = program_.results[0];
    if (result.reduce == EdgeReduce::kSoftmax) return EmitAttention(result);
    if (result.reduce > EdgeReduce::kMin) return -1;
    const ValueId propagated = EmitPropagate(result);
    return propagated >= 0 ? propagated : EmitMessage(result);
  }

 private:
  // u_j + v_i + W e + b; all but u may be absent.
  struct Sum {
    int32_t source = -1, target = -1;  // values
    int32_t features = -1;             // a value: the features themselves, or their product
  };

  const EdgeValue& At(int32_t value) const { return program_.values[value]; }
  Reduce ReduceOf(const EdgeResult& result) const {
    constexpr Reduce kReduces[] = {Reduce::kSum, Reduce::kMean, Reduce::kMax, Reduce::kMin};
    return kReduces[static_cast<int>(result.reduce)];
  }
  // The matrix of which `value` has all columns, or -1.
  ValueId WholeMatrix(int32_t value) const {
    const EdgeValue& v = At(value);
    if (v.op != EdgeOp::kSource && v.op != EdgeOp::kTarget) return -1;
    const ValueId matrix = inputs_[v.op == EdgeOp::kSource ? v.index : program_.sources + v.index];
    return v.first == 0 && v.width == context_.steps.width(matrix) ? matrix : -1;
  }
  bool IsWholeFeatures(int32_t value) const {
    return At(value).op == EdgeOp::kFeatures && At(value).width == step_.edge_width;
  }

  bool AddTerm(int32_t value, Sum* sum) const {
    const EdgeValue& v = At(value);
    if (v.op == EdgeOp::kAdd && At(v.a).width == v.width && At(v.b).width == v.width)
      return AddTerm(v.a, sum) && AddTerm(v.b, sum);
    int32_t* place = nullptr;
    if (WholeMatrix(value) >= 0) place = v.op == EdgeOp::kSource ? &sum->source : &sum->target;
    if (IsWholeFeatures(value) || (v.op == EdgeOp::kLinear && IsWholeFeatures(v.a))) place = &sum->features;
    if (place == nullptr || *place >= 0) return false;
    *place = value;
    return true;
  }
  std::optional<Sum> SumOf(int32_t value) const {
    Sum sum;
    if (!AddTerm(value, &sum) || sum.source < 0) return std::nullopt;
    return sum;
  }

  // x_j, or w_ij x_j.
  ValueId EmitPropagate(const EdgeResult& result) const {
    PropagateStep step;
    step.adjacency = step_.adjacency;
    step.reduce = ReduceOf(result);
    const EdgeValue& v = At(result.value);
    int32_t source = result.value;
    if (v.op == EdgeOp::kMultiply && (At(v.a).op == EdgeOp::kWeight || At(v.b).op == EdgeOp::kWeight)) {
      source = At(v.a).op == EdgeOp::kWeight ? v.b : v.a;
    } else {
      step.adjacency.weighting = EdgeWeighting::kNone;
    }
    if (At(source).op != EdgeOp::kSource || WholeMatrix(source) < 0) return -1;
    const int64_t width = At(source).width;
    if (width != v.width) return -1;
    return context_.steps.Emit(step, {WholeMatrix(source)}, width);
  }

  // A network of activations and products after a sum.
  ValueId EmitMessage(const EdgeResult& result) const {
    std::vector<EdgeConvOp> nn;
    int32_t value = result.value;
    std::optional<Sum> sum = SumOf(value);
    for (; !sum.has_value(); sum = SumOf(value)) {
      const EdgeValue& v = At(value);
      if (v.op == EdgeOp::kActivation) {
        nn.push_back(ActivationStep{v.activation});
      } else if (v.op == EdgeOp::kLinear) {
        nn.push_back(LinearStep{step_.parameters[v.index], v.bias >= 0 ? step_.parameters[v.bias] : nullptr});
      } else {
        return -1;
      }
      value = v.a;
    }
    std::reverse(nn.begin(), nn.end());
    EdgeMessageStep step;
    step.adjacency = step_.adjacency;
    step.adjacency.weighting = EdgeWeighting::kNone;
    step.reduce = ReduceOf(result);
    if (!nn.empty() && std::holds_alternative<ActivationStep>(nn.front())) {
      step.activation = std::get<ActivationStep>(nn.front()).activation;
      nn.erase(nn.begin());
    }
    const bool filled = step_.adjacency.loops != SelfLoops::kAsSent && !step_.loop_features.mean;
    if (!IsNetwork(nn) || (sum->features >= 0 && filled)) return -1;
    step.nn = std::move(nn);
    SetFeatures(*sum, &step.edge_width, &step.edge_weight, &step.edge_bias);
    std::vector<ValueId> inputs = {WholeMatrix(sum->source)};
    if (sum->target >= 0) inputs.push_back(WholeMatrix(sum->target));
    return context_.steps.Emit(std::move(step), std::move(inputs), At(result.value).width);
  }

  // Products, each with one activation at most, as many as a message network may have.
  static bool IsNetwork(const std::vector<EdgeConvOp>& nn) {
    int products = 0;
    for (size_t i = 0; i < nn.size(); ++i) {
      const bool product = std::holds_alternative<LinearStep>(nn[i]);
      products += product ? 1 : 0;
      if (!product && (i == 0 || !std::holds_alternative<LinearStep>(nn[i - 1]))) return false;
    }
    return products < kMaxEdgeConvLayers;
  }

  void SetFeatures(const Sum& sum, int64_t* width, WeightRef* weight, WeightRef* bias) const {
    if (sum.features < 0) return;
    *width = step_.edge_width;
    const EdgeValue& v = At(sum.features);
    if (v.op != EdgeOp::kLinear) return;
    *weight = step_.parameters[v.index];
    if (v.bias >= 0) *bias = step_.parameters[v.bias];
  }

  // GATv2: the value is u_j, the score dot(leaky_relu(u_j + v_i + W e), row) by heads.
  ValueId EmitAttention(const EdgeResult& result) const {
    const EdgeValue& score = At(result.score);
    if (score.op != EdgeOp::kDot || At(score.b).op != EdgeOp::kRow) return -1;
    const EdgeValue& act = At(score.a);
    if (act.op != EdgeOp::kActivation || act.activation.kind != ActivationKind::kLeakyRelu) return -1;
    const std::optional<Sum> sum = SumOf(act.a);
    if (!sum.has_value() || sum->source != result.value || sum->target < 0) return -1;
    AttentionStep step;
    step.kind = AttentionKind::kGatV2;
    step.adjacency = step_.adjacency;
    step.adjacency.weighting = EdgeWeighting::kNone;
    step.heads = score.width;
    step.head_width = act.width / score.width;
    step.negative_slope = act.activation.slope;
    step.att_src = step_.parameters[At(score.b).index];
    WeightRef bias;
    SetFeatures(*sum, &step.edge_width, &step.edge_weight, &bias);
    if (bias != nullptr || (step.edge_width > 0 && step.edge_weight == nullptr)) return -1;
    step.loop_features = step_.loop_features;
    return context_.steps.Emit(step, {WholeMatrix(sum->source), WholeMatrix(sum->target)}, act.width);
  }

  const LayerContext& context_;
  const ExpressionStep& step_;
  const EdgeProgram& program_;
  const std::vector<ValueId>& inputs_;
};

}  // namespace

ValueId EmitMatchingStep(const LayerContext& context, const ExpressionStep& step, const std::vector<ValueId>& inputs) {
  return Matcher(context, step, inputs).Emit();
}

}  // namespace vicinal::internal
