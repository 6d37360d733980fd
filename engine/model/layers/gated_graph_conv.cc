// SPDX-License-Identifier: Apache-2.0
// GatedGraphConv (Li et al. 2016): x_(l+1) = GRU(reduce_{j -> i}(w_ij x_j W_l), x_l), where x_0 is x, padded with zeros
// to `out_channels` columns. Loops and duplicates count as sent.
#include <utility>

#include "engine/model/layers/derived_weights.h"
#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

class GatedGraph {
 public:
  explicit GatedGraph(const LayerContext& context) : context_(context), width_(context.args.Int("out_channels")) {
    propagate_.reduce = context.args.Aggr();
    if (context.declaration.edge_weight) propagate_.adjacency.weighting = EdgeWeighting::kSent;
  }

  Status Read() {
    if (context_.input_width() > width_)
      return BadArchitecture(context_.args.FieldOf("out_channels"),
                             context_.Describe() + " has out_channels " + std::to_string(width_) +
                                 ", which must not be below the input's " + std::to_string(context_.input_width()) +
                                 " columns");
    VICINAL_ASSIGN_OR_RETURN(weight_, context_.Tensor("weight", {context_.args.Int("num_layers"), width_, width_}));
    VICINAL_RETURN_IF_ERROR(ReadGates("ih", of_message_));
    return ReadGates("hh", of_state_);
  }

  ValueId Run() {
    ValueId state = Padded();
    for (int64_t l = 0; l < context_.args.Int("num_layers"); ++l) {
      const ValueId product = Emit(LinearStep{TransposedPart(context_, *weight_, l, width_, width_), nullptr}, {state});
      state = Gru(Emit(propagate_, {product}), state);
    }
    return state;
  }

 private:
  // torch.nn.GRUCell stacks the rows of the reset gate, the update gate and the candidate.
  Status ReadGates(const std::string& name, LinearStep (&gates)[3]) {
    VICINAL_ASSIGN_OR_RETURN(WeightRef weight, context_.Tensor("rnn.weight_" + name, {3 * width_, width_}));
    WeightRef bias;
    if (context_.args.Bool("bias")) {
      VICINAL_ASSIGN_OR_RETURN(bias, context_.Tensor("rnn.bias_" + name, {3 * width_}));
    }
    for (int64_t gate = 0; gate < 3; ++gate) {
      gates[gate].weight = Part(context_, *weight, gate, {width_, width_});
      if (bias != nullptr) gates[gate].bias = Part(context_, *bias, gate, {width_});
    }
    return OkStatus();
  }

  ValueId Emit(StepOp op, std::vector<ValueId> inputs) {
    return context_.steps.Emit(std::move(op), std::move(inputs), width_);
  }

  // A product with a matrix of zeros and ones changes no number.
  ValueId Padded() {
    const int64_t in = context_.input_width();
    if (in == width_) return context_.input();
    return Emit(LinearStep{PaddingWeight(context_, width_, in), nullptr}, {context_.input()});
  }

  ValueId Gate(int index, ValueId message, ValueId state) {
    const ValueId sum = Emit(AddStep{}, {Emit(of_message_[index], {message}), Emit(of_state_[index], {state})});
    return Emit(ActivationStep{{ActivationKind::kSigmoid}}, {sum});
  }

  // n + z (h - n) for z = sigmoid(W m + b + U h + c) and n = tanh(W' m + b' + r (U' h + c')).
  ValueId Gru(ValueId message, ValueId state) {
    const ValueId reset = Gate(0, message, state), update = Gate(1, message, state);
    const ValueId kept = Emit(MultiplyStep{}, {reset, Emit(of_state_[2], {state})});
    const ValueId candidate =
        Emit(ActivationStep{{ActivationKind::kTanh}}, {Emit(AddStep{}, {Emit(of_message_[2], {message}), kept})});
    const ValueId change = Emit(MultiplyStep{}, {update, Emit(AddStep{1.0, -1.0}, {state, candidate})});
    return Emit(AddStep{}, {candidate, change});
  }

  const LayerContext& context_;
  const int64_t width_;
  PropagateStep propagate_;
  WeightRef weight_;
  LinearStep of_message_[3], of_state_[3];
};

StatusOr<ValueId> LowerGatedGraph(const LayerContext& context) {
  GatedGraph layer(context);
  VICINAL_RETURN_IF_ERROR(layer.Read());
  return layer.Run();
}

}  // namespace

LayerType GatedGraphConv() {
  LayerType type;
  type.name = "GatedGraphConv";
  type.arguments = {RequiredIntArgument("out_channels", 1, kMaxWidth / 3),
                    RequiredIntArgument("num_layers", 1, kMaxHops), AggrArgument("add"), BoolArgument("bias", true)};
  AddArguments(MessagePassingArguments(false), &type.arguments);
  type.convolution = true;
  type.takes_edge_weight = true;
  type.lower = LowerGatedGraph;
  return type;
}

}  // namespace vicinal::internal
