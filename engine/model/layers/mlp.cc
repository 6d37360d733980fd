// SPDX-License-Identifier: Apache-2.0
// torch_geometric.nn.MLP: Linear, norm, activation for each pair of widths; the last is a Linear alone unless
// `plain_last` is false.
#include <utility>

#include "engine/model/layers/layers.h"
#include "engine/model/torch_names.h"

namespace vicinal::internal {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxMlpLayers = 1024;

bool IsWidth(const Json& value) { return value.is_number_integer() && value >= 1 && value <= kMaxWidth; }

// [in, hidden, ..., out], from in_channels, hidden_channels, out_channels and num_layers.
StatusOr<std::vector<int64_t>> WidthsFromCounts(const LayerContext& context) {
  const Arguments& args = context.args;
  for (const char* name : {"num_layers", "out_channels"}) {
    if (args.IsNull(name))
      return BadArchitecture(args.FieldOf(name), context.Describe() + " needs channel_list, or num_layers and " +
                                                     "out_channels; " + args.FieldOf(name) + " is missing");
  }
  std::vector<int64_t> widths = {context.input_width()};
  const int64_t layers = args.Int("num_layers");
  if (layers > 1 && args.IsNull("hidden_channels"))
    return BadArchitecture(args.FieldOf("hidden_channels"),
                           context.Describe() + " needs hidden_channels, as it has more than one layer");
  for (int64_t i = 1; i < layers; ++i) widths.push_back(args.Int("hidden_channels"));
  widths.push_back(args.Int("out_channels"));
  return widths;
}

StatusOr<std::vector<int64_t>> Widths(const LayerContext& context) {
  const Arguments& args = context.args;
  VICINAL_RETURN_IF_ERROR(context.CheckInChannels("in_channels"));
  const Json& list = args.Raw("channel_list");
  const std::string field = args.FieldOf("channel_list");
  if (list.is_null() || list.is_number()) {
    if (!list.is_null() && list != context.input_width())
      return BadArchitecture(field, field + " must be the width of the input, " +
                                        std::to_string(context.input_width()) + ", or a list of widths");
    return WidthsFromCounts(context);
  }
  if (!args.IsNull("num_layers") || !args.IsNull("hidden_channels") || !args.IsNull("out_channels"))
    return BadArchitecture(field, context.Describe() + " has channel_list, and num_layers, hidden_channels or " +
                                      "out_channels beside it; give one or the other");
  if (!list.is_array() || list.size() < 2 || list.size() > kMaxMlpLayers + 1)
    return BadArchitecture(field, field + " must be a list of 2 to " + std::to_string(kMaxMlpLayers + 1) + " widths");
  std::vector<int64_t> widths;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string path = field + "[" + std::to_string(i) + "]";
    if (!IsWidth(list[i])) return BadArchitecture(path, path + " must be a width, 1 to " + std::to_string(kMaxWidth));
    widths.push_back(list[i].get<int64_t>());
  }
  if (widths[0] != context.input_width())
    return BadArchitecture(field + "[0]", field + "[0] is " + std::to_string(widths[0]) + ", but the input has " +
                                              std::to_string(context.input_width()) + " columns");
  return widths;
}

// Whether each layer has a bias: one value for all, or a list.
StatusOr<std::vector<bool>> Biases(const LayerContext& context, size_t layers) {
  const Json& bias = context.args.Raw("bias");
  const std::string field = context.args.FieldOf("bias");
  if (bias.is_null()) return std::vector<bool>(layers, true);
  if (bias.is_boolean()) return std::vector<bool>(layers, bias.get<bool>());
  if (!bias.is_array() || bias.size() != layers)
    return BadArchitecture(
        field, field + " must be true, false, or a list of " + std::to_string(layers) + " of them, one per layer");
  std::vector<bool> biases;
  for (const Json& one : bias) {
    if (!one.is_boolean()) return BadArchitecture(field, field + " must contain true or false only");
    biases.push_back(one.get<bool>());
  }
  return biases;
}

StatusOr<Json> ObjectOrNull(const LayerContext& context, const char* name) {
  const Json& value = context.args.Raw(name);
  if (value.is_null()) return Json::object();
  if (value.is_object()) return value;
  const std::string field = context.args.FieldOf(name);
  return BadArchitecture(field, field + " must be an object of arguments, or null");
}

// Lowers the parts of one MLP, each as a nested layer.
class MlpLowering {
 public:
  explicit MlpLowering(const LayerContext& context) : context_(context), value_(context.input()) {}

  Status Read() {
    const Arguments& args = context_.args;
    VICINAL_ASSIGN_OR_RETURN(act_, ActivationType(args.Raw("act"), args.FieldOf("act")));
    VICINAL_ASSIGN_OR_RETURN(norm_, NormType(args.Raw("norm"), args.FieldOf("norm")));
    VICINAL_ASSIGN_OR_RETURN(act_args_, ObjectOrNull(context_, "act_kwargs"));
    VICINAL_ASSIGN_OR_RETURN(norm_args_, ObjectOrNull(context_, "norm_kwargs"));
    return OkStatus();
  }

  // Layer `index`: its Linear, and with `whole` its norm and its activation.
  Status Add(int64_t index, int64_t out, bool bias, bool whole) {
    const std::string number = std::to_string(index) + ".";
    VICINAL_RETURN_IF_ERROR(
        Lower("Linear", "lins." + number, {{"out_channels", out}, {"bias", bias}}, context_.args.field()));
    if (!whole) return OkStatus();
    if (context_.args.Bool("act_first")) VICINAL_RETURN_IF_ERROR(Activate());
    if (!norm_.empty())
      VICINAL_RETURN_IF_ERROR(Lower(norm_, "norms." + number, norm_args_, context_.args.FieldOf("norm_kwargs")));
    if (!context_.args.Bool("act_first")) VICINAL_RETURN_IF_ERROR(Activate());
    return OkStatus();
  }

  ValueId value() const { return value_; }

 private:
  Status Activate() {
    return act_.empty() ? OkStatus() : Lower(act_, "act.", act_args_, context_.args.FieldOf("act_kwargs"));
  }

  Status Lower(const std::string& type, const std::string& suffix, const Json& args, const std::string& args_field) {
    LayerDeclaration part;
    part.type = type;
    part.prefix = context_.declaration.prefix + suffix;
    part.args = args;
    part.field = context_.declaration.field;
    part.args_field = args_field;
    VICINAL_ASSIGN_OR_RETURN(
        value_, LowerLayer(part, {value_}, context_.steps, context_.tensors, context_.graph_level, true, nullptr));
    return OkStatus();
  }

  const LayerContext& context_;
  ValueId value_;
  std::string act_, norm_;
  Json act_args_, norm_args_;
};

StatusOr<ValueId> LowerMlp(const LayerContext& context) {
  VICINAL_ASSIGN_OR_RETURN(const std::vector<int64_t> widths, Widths(context));
  VICINAL_ASSIGN_OR_RETURN(const std::vector<bool> biases, Biases(context, widths.size() - 1));
  MlpLowering mlp(context);
  VICINAL_RETURN_IF_ERROR(mlp.Read());
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    const bool whole = i + 2 < widths.size() || !context.args.Bool("plain_last");
    VICINAL_RETURN_IF_ERROR(mlp.Add(static_cast<int64_t>(i), widths[i + 1], biases[i], whole));
  }
  return mlp.value();
}

}  // namespace

LayerType MlpLayer() {
  LayerType type;
  type.name = "MLP";
  type.arguments = {AnyArgument("channel_list", nullptr),
                    InChannelsArgument("in_channels"),
                    IntArgument("hidden_channels", nullptr, 1, kMaxWidth),
                    IntArgument("out_channels", nullptr, 1, kMaxWidth),
                    IntArgument("num_layers", nullptr, 1, kMaxMlpLayers),
                    IgnoredArgument("dropout"),
                    AnyArgument("act", "relu"),
                    BoolArgument("act_first", false),
                    AnyArgument("act_kwargs", nullptr),
                    AnyArgument("norm", "batch_norm"),
                    AnyArgument("norm_kwargs", nullptr),
                    BoolArgument("plain_last", true),
                    AnyArgument("bias", true)};
  type.nestable = true;
  type.lower = LowerMlp;
  return type;
}

}  // namespace vicinal::internal
