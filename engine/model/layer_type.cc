// SPDX-License-Identifier: Apache-2.0
#include "engine/model/layer_type.h"

#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_join.h"
#include "engine/base/error.h"
#include "engine/base/nearest_name.h"
#include "engine/base/printable.h"

namespace vicinal::internal {
namespace {

std::vector<std::string> TypeNames(bool nested) {
  std::vector<std::string> names;
  for (const LayerType& type : LayerTypes()) {
    if (!nested || type.nestable) names.push_back(type.name);
  }
  return names;
}

// What to write instead of `name`: the type that it misspells, and all types.
std::string Instead(const std::string& name, bool nested) {
  const std::vector<std::string> types = TypeNames(nested);
  const std::string nearest = NearestName(name, types);
  return (nearest.empty() ? "; supported: " : "; did you mean '" + nearest + "'? Supported: ") +
         absl::StrJoin(types, ", ");
}

Status CheckInputs(const LayerType& type, const LayerContext& context) {
  const std::string field = context.declaration.field + ".inputs";
  const size_t count = context.inputs.size();
  if (count < type.min_inputs || count > type.max_inputs) {
    std::string needed = std::to_string(type.min_inputs);
    if (type.min_inputs < type.max_inputs) needed += " to " + std::to_string(type.max_inputs);
    return BadArchitecture(field, context.Describe() + " has " + std::to_string(count) + " inputs; it takes " + needed);
  }
  for (ValueId value : context.inputs) {
    if ((type.convolution || type.node_rows) && context.steps.per_graph(value)) {
      return BadArchitecture(
          field, context.Describe() +
                     " needs one row per node, but its input has one row per graph (it comes after a readout)");
    }
    if (context.steps.per_graph(value) != context.steps.per_graph(context.inputs[0])) {
      return BadArchitecture(field, context.Describe() + " mixes inputs with one row per node and one row per graph");
    }
  }
  return OkStatus();
}

}  // namespace

ValueId StepList::Emit(StepOp op, std::vector<ValueId> inputs, int64_t width) {
  const bool reads_out = std::holds_alternative<ReadoutStep>(op) || std::holds_alternative<MedianStep>(op) ||
                         std::holds_alternative<SortStep>(op);
  const bool per_graph = reads_out || (values_[inputs[0]].per_graph && !std::holds_alternative<ExpandStep>(op));
  const ValueId output = num_values();
  values_.push_back({width, per_graph});
  steps_.push_back({std::move(op), std::move(inputs), output, width, layer_});
  return output;
}

void StepList::Declare(DeclaredAttention attention) {
  attention.layer = layer_;
  attention_.push_back(std::move(attention));
}

void StepList::TurnRound(size_t first) {
  for (size_t i = first; i < steps_.size(); ++i) {
    std::visit(
        [](auto& op) {
          if constexpr (requires { op.adjacency; }) op.adjacency.transposed = !op.adjacency.transposed;
        },
        steps_[i].op);
  }
}

std::string LayerContext::Describe() const {
  return declaration.name.empty() ? declaration.type + " (" + declaration.field + ")"
                                  : "layer '" + declaration.name + "' (" + declaration.type + ")";
}

StatusOr<WeightRef> LayerContext::Tensor(const std::string& suffix, const std::vector<int64_t>& expected,
                                         const std::vector<int64_t>& stored) const {
  return tensors.Bind(declaration.prefix + suffix, expected, Describe(), stored);
}

Status LayerContext::CheckInChannels(std::string_view argument) const {
  if (args.IsNull(argument) || args.Int(argument) == -1 || args.Int(argument) == input_width()) return OkStatus();
  return BadArchitecture(args.FieldOf(argument), args.FieldOf(argument) + " of " + Describe() + " is " +
                                                     std::to_string(args.Int(argument)) + ", but its input has " +
                                                     std::to_string(input_width()) + " columns");
}

const LayerType* FindLayerType(const std::string& name) {
  for (const LayerType& type : LayerTypes()) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

StatusOr<ValueId> LowerLayer(const LayerDeclaration& layer, const std::vector<ValueId>& inputs, StepList& steps,
                             TensorBinder& tensors, bool graph_level, bool nested, std::string* arguments_json) {
  const LayerType* type = FindLayerType(layer.type);
  if (type == nullptr || (nested && !type->nestable)) {
    return BadArchitecture(layer.field + ".type", "layer type '" + Printable(layer.type) + "' is not supported " +
                                                      (nested ? "inside another layer" : "here") +
                                                      Instead(layer.type, nested));
  }
  VICINAL_ASSIGN_OR_RETURN(Arguments args, Arguments::Read(layer.args, type->arguments, layer.args_field, type->name));
  if (arguments_json != nullptr)
    *arguments_json = args.json().dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  const LayerContext context{layer, args, inputs, steps, tensors, graph_level, nested};
  if (layer.edge_weight && !type->takes_edge_weight) {
    return UnsupportedArgument(layer.field + ".edge_weight",
                               context.Describe() + " does not support edge weights; remove edge_weight");
  }
  VICINAL_RETURN_IF_ERROR(CheckInputs(*type, context));
  VICINAL_ASSIGN_OR_RETURN(const ValueId output, type->lower(context));
  VICINAL_RETURN_IF_ERROR(tensors.CheckMade(layer.field));
  return output;
}

}  // namespace vicinal::internal
