// SPDX-License-Identifier: Apache-2.0
#include "engine/model/load_decoder.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "engine/base/printable.h"
#include "engine/base/tensor.h"
#include "engine/model/architecture.h"
#include "engine/model/arguments.h"
#include "engine/model/layer_type.h"

namespace vicinal {

std::string_view NameOf(DecoderKind kind) {
  switch (kind) {
    case DecoderKind::kDot:
      return "dot";
    case DecoderKind::kCosine:
      return "cosine";
    case DecoderKind::kBilinear:
      return "bilinear";
    case DecoderKind::kDistMult:
      return "distmult";
    case DecoderKind::kMlp:
      return "mlp";
  }
  return "";
}

std::vector<WeightRef> Decoder::weights() const {
  std::vector<WeightRef> all = {weight, bias};
  for (const DecoderLayer& layer : layers) {
    all.push_back(layer.weight);
    all.push_back(layer.bias);
  }
  return all;
}

namespace internal {
namespace {

using Json = nlohmann::json;

constexpr char kField[] = "decoder";
constexpr int64_t kMaxRelations = int64_t{1} << 20;

Status CheckKeys(const Json& json) {
  if (!json.is_object()) return BadArchitecture(kField, "decoder must be an object with a type, such as \"distmult\"");
  for (const auto& item : json.items()) {
    const std::string& key = item.key();
    if (key == "type" || key == "output" || key == "prefix" || key == "args") continue;
    const std::string path = std::string(kField) + "." + Printable(key);
    return BadArchitecture(path, path + " is not known; the keys of a decoder are: type, output, prefix, args");
  }
  return OkStatus();
}

StatusOr<std::string> Text(const Json& json, const char* key, const char* default_value) {
  const auto found = json.find(key);
  if (found == json.end()) return std::string(default_value);
  if (found->is_string()) return found->get<std::string>();
  const std::string path = std::string(kField) + "." + key;
  return BadArchitecture(path, path + " must be a string");
}

StatusOr<DecoderKind> KindOf(const std::string& type) {
  for (const DecoderKind kind :
       {DecoderKind::kDot, DecoderKind::kCosine, DecoderKind::kBilinear, DecoderKind::kDistMult, DecoderKind::kMlp}) {
    if (type == NameOf(kind)) return kind;
  }
  const std::string small = absl::AsciiStrToLower(type);
  const bool known = small != type && KindOf(small).ok();
  return BadArchitecture("decoder.type", "decoder.type is '" + Printable(type) + "'; " +
                                             (known ? "did you mean '" + small + "'? There" : "there") +
                                             " are: dot, cosine, bilinear, distmult, mlp");
}

std::vector<ArgumentSpec> ArgumentsOf(DecoderKind kind) {
  switch (kind) {
    case DecoderKind::kDot:
    case DecoderKind::kCosine:
      return {};
    case DecoderKind::kBilinear:
      return {IntArgument("num_relations", 1, 1, kMaxRelations), BoolArgument("bias", true)};
    case DecoderKind::kDistMult:
      return {IntArgument("num_relations", 1, 1, kMaxRelations)};
    case DecoderKind::kMlp:
      return {ChoiceArgument("combine", "concat", {"concat", "product"}), NestedArgument("nn")};
  }
  return {};
}

// An activation becomes part of the Linear before it.
Status TakeStep(const Step& step, const LayerDeclaration& layer, Decoder* decoder) {
  if (const auto* linear = std::get_if<LinearStep>(&step.op)) {
    decoder->layers.push_back({linear->weight, linear->bias, {}});
    return OkStatus();
  }
  const auto* activation = std::get_if<ActivationStep>(&step.op);
  if (activation != nullptr && !decoder->layers.empty() &&
      decoder->layers.back().activation.kind == ActivationKind::kNone) {
    decoder->layers.back().activation = activation->activation;
    return OkStatus();
  }
  return UnsupportedArgument(layer.field, layer.type + " (" + layer.field +
                                              ") is not supported there in a decoder's nn; supported: Linear, MLP "
                                              "without a norm, Dropout, Identity, and one activation after a Linear");
}

Status ReadNetwork(const Arguments& args, const std::string& prefix, TensorBinder& tensors, Decoder* decoder) {
  decoder->product = args.Choice("combine") == "product";
  VICINAL_ASSIGN_OR_RETURN(const std::vector<LayerDeclaration> layers,
                           ParseNestedLayers(args.Raw("nn"), prefix + "nn.", args.FieldOf("nn")));
  StepList steps(decoder->product ? decoder->width : 2 * decoder->width);
  ValueId value = kInputValue;
  for (const LayerDeclaration& layer : layers) {
    const size_t first = steps.steps().size();
    VICINAL_ASSIGN_OR_RETURN(value, LowerLayer(layer, {value}, steps, tensors, false, true, nullptr));
    for (size_t i = first; i < steps.steps().size(); ++i) {
      VICINAL_RETURN_IF_ERROR(TakeStep(steps.steps()[i], layer, decoder));
    }
  }
  const std::string field = args.FieldOf("nn");
  if (decoder->layers.empty()) return BadArchitecture(field, field + " needs a Linear");
  if (steps.width(value) == 1) return OkStatus();
  return BadArchitecture(field, field + " ends in " + std::to_string(steps.width(value)) +
                                    " columns; a link has one score, so the last Linear needs out_channels 1");
}

// The first of the names by which torch_geometric's users store the vectors of relations.
std::string VectorsName(const std::string& prefix, const TensorBinder& tensors) {
  for (const char* name : {"rel_emb", "rel_emb.weight"}) {
    if (tensors.Has(prefix + name)) return prefix + name;
  }
  return prefix + "weight";
}

// As many relations as the tensor has vectors or matrices.
Status CheckRelations(const std::string& tensor, int64_t relations, const TensorBinder& tensors) {
  const std::vector<int64_t>* const shape = tensors.ShapeOf(tensor);
  if (shape == nullptr || shape->empty() || (*shape)[0] == relations) return OkStatus();
  return BadArchitecture("decoder.args.num_relations",
                         "decoder.args.num_relations is " + std::to_string(relations) + ", but tensor '" +
                             Printable(tensor) + "' " + ShapeToString(*shape) + " has " + std::to_string((*shape)[0]) +
                             " relations; set num_relations to that");
}

Status BindWeights(const Arguments& args, const std::string& prefix, TensorBinder& tensors, Decoder* decoder) {
  const std::string user = "the decoder (" + std::string(NameOf(decoder->kind)) + ")";
  const int64_t width = decoder->width;
  if (decoder->kind == DecoderKind::kMlp) return ReadNetwork(args, prefix, tensors, decoder);
  if (decoder->kind == DecoderKind::kDot || decoder->kind == DecoderKind::kCosine) return OkStatus();
  const int64_t relations = decoder->relations = args.Int("num_relations");
  if (decoder->kind == DecoderKind::kDistMult) {
    const std::string vectors = VectorsName(prefix, tensors);
    VICINAL_RETURN_IF_ERROR(CheckRelations(vectors, relations, tensors));
    VICINAL_ASSIGN_OR_RETURN(decoder->weight, tensors.Bind(vectors, {relations, width}, user));
    return OkStatus();
  }
  VICINAL_RETURN_IF_ERROR(CheckRelations(prefix + "weight", relations, tensors));
  VICINAL_ASSIGN_OR_RETURN(decoder->weight, tensors.Bind(prefix + "weight", {relations, width, width}, user));
  if (args.Bool("bias")) {
    VICINAL_ASSIGN_OR_RETURN(decoder->bias, tensors.Bind(prefix + "bias", {relations}, user));
  }
  return OkStatus();
}

}  // namespace

StatusOr<Decoder> LoadDecoder(const Json& json, const Model& model, TensorBinder& tensors) {
  VICINAL_RETURN_IF_ERROR(CheckKeys(json));
  if (model.graph_level) {
    return BadArchitecture(kField, "the model answers per graph, but a decoder scores pairs of nodes; remove it");
  }
  Decoder decoder;
  VICINAL_ASSIGN_OR_RETURN(const std::string type, Text(json, "type", ""));
  VICINAL_ASSIGN_OR_RETURN(decoder.kind, KindOf(type));
  VICINAL_ASSIGN_OR_RETURN(decoder.output, Text(json, "output", "logits"));
  VICINAL_ASSIGN_OR_RETURN(const std::string prefix, Text(json, "prefix", "decoder."));
  const NamedOutput* const output = model.FindOutput(decoder.output);
  if (output == nullptr) {
    return BadArchitecture("decoder.output", "decoder.output is '" + Printable(decoder.output) +
                                                 "', which is no layer of the model, nor \"logits\"");
  }
  decoder.width = output->width;
  const Json none = Json::object();
  const auto args = json.find("args");
  VICINAL_ASSIGN_OR_RETURN(const Arguments read, Arguments::Read(args != json.end() ? *args : none,
                                                                 ArgumentsOf(decoder.kind), "decoder.args", type));
  VICINAL_RETURN_IF_ERROR(BindWeights(read, prefix, tensors, &decoder));
  return decoder;
}

}  // namespace internal
}  // namespace vicinal
