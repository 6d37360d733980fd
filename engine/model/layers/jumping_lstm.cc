// SPDX-License-Identifier: Apache-2.0
#include "engine/model/layers/jumping_lstm.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/layers/derived_weights.h"

namespace vicinal::internal {
namespace {

// So that the steps stay few: each input takes some 50.
constexpr size_t kMaxLstmInputs = 512;

// One direction of torch.nn.LSTM, whose tensors stack the rows of four gates: input, forget, candidate, output.
class Lstm {
 public:
  Lstm(const LayerContext& context, int64_t hidden) : context_(context), hidden_(hidden) {}

  // `suffix`: "" or "_reverse".
  Status Read(const std::string& suffix) {
    VICINAL_RETURN_IF_ERROR(ReadGates("ih_l0" + suffix, context_.input_width(), of_input_));
    return ReadGates("hh_l0" + suffix, hidden_, of_state_);
  }

  // The state after each of the inputs.
  std::vector<ValueId> Run(const std::vector<ValueId>& inputs) {
    std::vector<ValueId> states;
    ValueId cell = -1;
    for (const ValueId x : inputs) {
      const ValueId state = states.empty() ? -1 : states.back();
      const ValueId in = Gate(0, x, state, ActivationKind::kSigmoid);
      const ValueId candidate = Gate(2, x, state, ActivationKind::kTanh);
      const ValueId added = Emit(MultiplyStep{}, {in, candidate});
      // The first cell is 0.
      cell = cell < 0
                 ? added
                 : Emit(AddStep{}, {Emit(MultiplyStep{}, {Gate(1, x, state, ActivationKind::kSigmoid), cell}), added});
      const ValueId shown = Emit(ActivationStep{{ActivationKind::kTanh}}, {cell});
      states.push_back(Emit(MultiplyStep{}, {Gate(3, x, state, ActivationKind::kSigmoid), shown}));
    }
    return states;
  }

 private:
  Status ReadGates(const std::string& name, int64_t width, std::array<LinearStep, 4>& gates) {
    VICINAL_ASSIGN_OR_RETURN(const WeightRef weight, context_.Tensor("lstm.weight_" + name, {4 * hidden_, width}));
    VICINAL_ASSIGN_OR_RETURN(const WeightRef bias, context_.Tensor("lstm.bias_" + name, {4 * hidden_}));
    for (int64_t gate = 0; gate < 4; ++gate)
      gates[gate] = {Part(context_, *weight, gate, {hidden_, width}), Part(context_, *bias, gate, {hidden_})};
    return OkStatus();
  }

  // `state` -1: 0, whose product is the bias alone.
  ValueId Gate(size_t gate, ValueId x, ValueId state, ActivationKind kind) {
    const ValueId product = Emit(of_input_[gate], {x});
    const ValueId sum = state < 0 ? Emit(BiasStep{of_state_[gate].bias}, {product})
                                  : Emit(AddStep{}, {product, Emit(of_state_[gate], {state})});
    return Emit(ActivationStep{{kind}}, {sum});
  }

  ValueId Emit(StepOp op, std::vector<ValueId> inputs) {
    return context_.steps.Emit(std::move(op), std::move(inputs), hidden_);
  }

  const LayerContext& context_;
  const int64_t hidden_;
  std::array<LinearStep, 4> of_input_, of_state_;
};

// num_layers * channels / 2, the width of the LSTM's states.
StatusOr<int64_t> HiddenWidth(const LayerContext& context) {
  const Arguments& args = context.args;
  for (const char* name : {"channels", "num_layers"}) {
    if (args.IsNull(name))
      return BadArchitecture(args.FieldOf(name), context.Describe() + " with mode 'lstm' needs " + name);
  }
  const int64_t channels = args.Int("channels"), width = context.input_width();
  if (channels != width)
    return BadArchitecture(args.FieldOf("channels"), args.FieldOf("channels") + " of " + context.Describe() + " is " +
                                                         std::to_string(channels) + ", but its inputs have " +
                                                         std::to_string(width) + " columns");
  if (context.inputs.size() > kMaxLstmInputs)
    return BadArchitecture(context.declaration.field + ".inputs",
                           context.Describe() + " has " + std::to_string(context.inputs.size()) +
                               " inputs; with mode 'lstm' at most " + std::to_string(kMaxLstmInputs));
  const int64_t hidden = args.Int("num_layers") * channels / 2;
  if (hidden < 1 || 4 * hidden > kMaxWidth)
    return BadArchitecture(args.FieldOf("num_layers"), context.Describe() + " would have an LSTM of " +
                                                           std::to_string(hidden) + " columns; 1 to " +
                                                           std::to_string(kMaxWidth / 4) + " are supported");
  return hidden;
}

// A score per input, from the states of both directions.
std::vector<ValueId> Scores(const LayerContext& context, const std::vector<ValueId>& forwards,
                            const std::vector<ValueId>& backwards, const LinearStep& attention) {
  std::vector<ValueId> scores;
  for (size_t i = 0; i < forwards.size(); ++i) {
    const ValueId states = context.steps.Emit(ConcatStep{}, {forwards[i], backwards[forwards.size() - 1 - i]},
                                              2 * context.steps.width(forwards[i]));
    scores.push_back(context.steps.Emit(attention, {states}, 1));
  }
  return scores;
}

}  // namespace

StatusOr<ValueId> LowerJumpingLstm(const LayerContext& context) {
  VICINAL_ASSIGN_OR_RETURN(const int64_t hidden, HiddenWidth(context));
  Lstm forward(context, hidden), backward(context, hidden);
  VICINAL_RETURN_IF_ERROR(forward.Read(""));
  VICINAL_RETURN_IF_ERROR(backward.Read("_reverse"));
  LinearStep attention;
  VICINAL_ASSIGN_OR_RETURN(attention.weight, context.Tensor("att.weight", {1, 2 * hidden}));
  VICINAL_ASSIGN_OR_RETURN(attention.bias, context.Tensor("att.bias", {1}));
  const std::vector<ValueId> reversed(context.inputs.rbegin(), context.inputs.rend());
  const std::vector<ValueId> scores = Scores(context, forward.Run(context.inputs), backward.Run(reversed), attention);
  const int64_t count = static_cast<int64_t>(scores.size()), width = context.input_width();
  const ValueId joined = context.steps.Emit(ConcatStep{}, scores, count);
  const ValueId shares = context.steps.Emit(SoftmaxStep{}, {joined}, count);
  ValueId sum = -1;
  for (int64_t i = 0; i < count; ++i) {
    const ValueId share = context.steps.Emit(SliceStep{i}, {shares}, 1);
    const ValueId repeated =
        context.steps.Emit(LinearStep{ConstantWeight(context, width, 1, 1.0f), nullptr}, {share}, width);
    const ValueId weighted = context.steps.Emit(MultiplyStep{}, {repeated, context.inputs[i]}, width);
    sum = sum < 0 ? weighted : context.steps.Emit(AddStep{}, {sum, weighted}, width);
  }
  return sum;
}

}  // namespace vicinal::internal
