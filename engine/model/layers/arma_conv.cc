// SPDX-License-Identifier: Apache-2.0
// ARMAConv (Bianchi et al. 2021): the mean over K stacks of x_T, where x_t = act(A' x_(t-1) W_t + x V_t + b_t), x_0 = x
// and A' is GCNConv's without added loops.
#include <algorithm>
#include <utility>

#include "engine/model/layers/derived_weights.h"
#include "engine/model/layers/gcn_adjacency.h"
#include "engine/model/layers/layers.h"
#include "engine/model/torch_names.h"

namespace vicinal::internal {
namespace {

// Of all stacks, so that the steps stay few.
constexpr int64_t kMaxArmaLayers = 4096;

// The layer's tensors, and what is made of them for one stack at a time.
class Arma {
 public:
  explicit Arma(const LayerContext& context)
      : context_(context),
        in_(context.input_width()),
        out_(context.args.Int("out_channels")),
        stacks_(context.args.Int("num_stacks")),
        layers_(context.args.Int("num_layers")),
        shared_(context.args.Bool("shared_weights")) {
    propagate_.adjacency = GcnAdjacency({true, false, false, context.declaration.edge_weight});
  }

  Status Read() {
    const Arguments& args = context_.args;
    VICINAL_RETURN_IF_ERROR(context_.CheckInChannels("in_channels"));
    if (stacks_ * layers_ > kMaxArmaLayers)
      return BadArchitecture(args.FieldOf("num_stacks"), context_.Describe() + " has num_stacks times num_layers " +
                                                             std::to_string(stacks_ * layers_) + "; at most " +
                                                             std::to_string(kMaxArmaLayers));
    const int64_t own = shared_ ? 1 : layers_;
    const std::vector<int64_t> inner = {std::max<int64_t>(1, own - 1), stacks_, out_, out_};
    VICINAL_ASSIGN_OR_RETURN(initial_, context_.Tensor("init_weight", {stacks_, in_, out_}));
    VICINAL_ASSIGN_OR_RETURN(root_, context_.Tensor("root_weight", {own, stacks_, in_, out_}));
    if (layers_ > 1) {
      VICINAL_ASSIGN_OR_RETURN(inner_, context_.Tensor("weight", inner));
    } else {  // state_dicts have it nevertheless
      VICINAL_RETURN_IF_ERROR(
          context_.tensors.BindUnread(context_.declaration.prefix + "weight", inner, context_.Describe()));
    }
    if (args.Bool("bias")) {
      VICINAL_ASSIGN_OR_RETURN(bias_, context_.Tensor("bias", {own, stacks_, 1, out_}));
    }
    VICINAL_ASSIGN_OR_RETURN(act_.type, ActivationType(args.Raw("act"), args.FieldOf("act")));
    if (!args.IsNull("act_kwargs")) act_.args = args.Raw("act_kwargs");
    act_.field = context_.declaration.field;
    act_.args_field = args.FieldOf("act_kwargs");
    return OkStatus();
  }

  StatusOr<ValueId> Mean() {
    ValueId sum = -1;
    for (int64_t stack = 0; stack < stacks_; ++stack) {
      VICINAL_ASSIGN_OR_RETURN(const ValueId value, Stack(stack));
      sum = sum < 0 ? value : Emit(AddStep{}, {sum, value});
    }
    return stacks_ == 1 ? sum : Emit(ScaleStep{1.0 / static_cast<double>(stacks_), nullptr}, {sum});
  }

 private:
  ValueId Emit(StepOp op, std::vector<ValueId> inputs) {
    return context_.steps.Emit(std::move(op), std::move(inputs), out_);
  }

  StatusOr<ValueId> Stack(int64_t stack) {
    ValueId value = context_.input();
    for (int64_t t = 0; t < layers_; ++t) {
      const int64_t own = (shared_ ? 0 : t) * stacks_ + stack;
      const WeightRef weight =
          t == 0 ? TransposedPart(context_, *initial_, stack, in_, out_)
                 : TransposedPart(context_, *inner_, (shared_ ? 0 : t - 1) * stacks_ + stack, out_, out_);
      value = Emit(propagate_, {Emit(LinearStep{weight, nullptr}, {value})});
      const WeightRef bias = bias_ != nullptr ? Part(context_, *bias_, own, {out_}) : nullptr;
      value =
          Emit(AddStep{},
               {value, Emit(LinearStep{TransposedPart(context_, *root_, own, in_, out_), bias}, {context_.input()})});
      if (act_.type.empty()) continue;
      VICINAL_ASSIGN_OR_RETURN(
          value, LowerLayer(act_, {value}, context_.steps, context_.tensors, context_.graph_level, true, nullptr));
    }
    return value;
  }

  const LayerContext& context_;
  const int64_t in_, out_, stacks_, layers_;
  const bool shared_;
  PropagateStep propagate_;
  WeightRef initial_, inner_, root_, bias_;
  LayerDeclaration act_;  // without a type: none
};

StatusOr<ValueId> LowerArma(const LayerContext& context) {
  Arma arma(context);
  VICINAL_RETURN_IF_ERROR(arma.Read());
  return arma.Mean();
}

}  // namespace

LayerType ArmaConv() {
  LayerType type;
  type.name = "ARMAConv";
  type.arguments = {InChannelsArgument("in_channels"),
                    RequiredIntArgument("out_channels", 1, kMaxWidth),
                    IntArgument("num_stacks", 1, 1, kMaxArmaLayers),
                    IntArgument("num_layers", 1, 1, kMaxHops),
                    BoolArgument("shared_weights", false),
                    AnyArgument("act", "relu"),
                    AnyArgument("act_kwargs", nullptr),
                    IgnoredArgument("dropout"),
                    BoolArgument("bias", true)};
  AddArguments(MessagePassingArguments(true), &type.arguments);
  type.convolution = true;
  type.takes_edge_weight = true;
  type.lower = LowerArma;
  return type;
}

}  // namespace vicinal::internal
