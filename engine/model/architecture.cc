// SPDX-License-Identifier: Apache-2.0
#include "engine/model/architecture.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/base/strict_json.h"
#include "engine/model/arguments.h"
#include "engine/model/ready_made.h"

namespace vicinal::internal {
namespace {

using Json = nlohmann::json;

constexpr char kFormat[] = "vicinal.model/1";
constexpr size_t kMaxDocumentBytes = size_t{4} << 20;
constexpr size_t kMaxNameBytes = 128;

bool Contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Names stand in messages, logs and requests.
bool IsName(const std::string& name) {
  if (name.empty() || name.size() > kMaxNameBytes) return false;
  return std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
}

Status ReadString(const Json& json, const char* key, const std::string& field, std::string* out) {
  const auto it = json.find(key);
  if (it == json.end()) return OkStatus();
  const std::string path = field + "." + key;
  if (!it->is_string()) return BadArchitecture(path, path + " must be a string");
  *out = it->get<std::string>();
  return OkStatus();
}

Status ReadBool(const Json& json, const char* key, const std::string& field, bool* out) {
  const auto it = json.find(key);
  if (it == json.end()) return OkStatus();
  const std::string path = field.empty() ? key : field + "." + key;
  if (!it->is_boolean()) return BadArchitecture(path, path + " must be true or false");
  *out = it->get<bool>();
  return OkStatus();
}

Status CheckLayerKeys(const Json& json, const std::vector<std::string>& known, const std::string& field) {
  if (!json.is_object()) return BadArchitecture(field, field + " must be an object that describes a layer");
  for (const auto& item : json.items()) {
    if (!Contains(known, item.key())) {
      const std::string path = field + "." + Printable(item.key());
      std::string list;
      for (const std::string& key : known) list += (list.empty() ? "" : ", ") + key;
      return BadArchitecture(path,
                             path + " is not known; the keys of a layer are: " + list + " (arguments belong in args)");
    }
  }
  return OkStatus();
}

Status ReadTypeAndArgs(const Json& json, LayerDeclaration* layer) {
  VICINAL_RETURN_IF_ERROR(ReadString(json, "type", layer->field, &layer->type));
  if (layer->type.empty())
    return BadArchitecture(layer->field + ".type", layer->field + " needs a type, such as \"GCNConv\"");
  if (const auto args = json.find("args"); args != json.end()) layer->args = *args;
  layer->args_field = layer->field + ".args";
  return OkStatus();
}

Status ReadInputs(const Json& json, const std::string& default_input, LayerDeclaration* layer) {
  const auto inputs = json.find("inputs");
  if (inputs == json.end()) {
    layer->inputs = {default_input};
    return OkStatus();
  }
  const std::string path = layer->field + ".inputs";
  if (!inputs->is_array() || inputs->empty()) {
    return BadArchitecture(path, path + " must be a list of names of layers before this one, or \"x\"");
  }
  for (size_t i = 0; i < inputs->size(); ++i) {
    if (!(*inputs)[i].is_string()) return BadArchitecture(path, path + "[" + std::to_string(i) + "] must be a name");
    layer->inputs.push_back((*inputs)[i].get<std::string>());
  }
  return OkStatus();
}

StatusOr<LayerDeclaration> ReadLayer(const Json& json, size_t index, const std::string& previous) {
  LayerDeclaration layer;
  layer.field = "layers[" + std::to_string(index) + "]";
  VICINAL_RETURN_IF_ERROR(
      CheckLayerKeys(json, {"name", "type", "prefix", "inputs", "edge_weight", "args"}, layer.field));
  VICINAL_RETURN_IF_ERROR(ReadTypeAndArgs(json, &layer));
  VICINAL_RETURN_IF_ERROR(ReadString(json, "name", layer.field, &layer.name));
  if (!IsName(layer.name)) {
    return BadArchitecture(layer.field + ".name",
                           layer.field + ".name must have 1 to 128 letters, digits, '.', '_' or '-'");
  }
  if (layer.name == kInputName || layer.name == "logits" || layer.name == "last_conv_input") {
    return BadArchitecture(layer.field + ".name",
                           layer.field + ".name is \"" + layer.name + "\", which is reserved; choose another");
  }
  layer.prefix = layer.name + ".";
  VICINAL_RETURN_IF_ERROR(ReadString(json, "prefix", layer.field, &layer.prefix));
  VICINAL_RETURN_IF_ERROR(ReadInputs(json, previous, &layer));
  VICINAL_RETURN_IF_ERROR(ReadBool(json, "edge_weight", layer.field, &layer.edge_weight));
  return layer;
}

StatusOr<Architecture> ReadExplicit(const Json& json) {
  const auto layers = json.find("layers");
  if (layers == json.end() || !layers->is_array() || layers->empty() || layers->size() > kMaxLayers) {
    return BadArchitecture(
        "layers", "layers must be a list of 1 to " + std::to_string(kMaxLayers) +
                      " layers (docs/formats.md), or the document must have a class of torch_geometric.nn.models");
  }
  VICINAL_RETURN_IF_ERROR(
      CheckDocumentKeys(json, {"format", "in_channels", "task", "target", "multi_label", "layers", "decoder"}));
  if (const auto format = json.find("format"); format == json.end() || *format != kFormat) {
    const std::string is = format == json.end()  ? "is missing"
                           : format->is_string() ? "is '" + Printable(format->get<std::string>()) + "'"
                                                 : "is no text";
    return BadArchitecture("format", "format " + is + "; this server reads \"" + kFormat + "\"");
  }
  Architecture architecture;
  const auto in_channels = json.find("in_channels");
  if (in_channels == json.end() || !in_channels->is_number_integer() || *in_channels < 1 || *in_channels > kMaxWidth) {
    return BadArchitecture("in_channels",
                           "in_channels must be the number of input features, 1 to " + std::to_string(kMaxWidth));
  }
  architecture.in_channels = in_channels->get<int64_t>();
  VICINAL_RETURN_IF_ERROR(ReadTask(json, &architecture));
  std::string previous = kInputName;
  int64_t num_inputs = 0;
  for (size_t i = 0; i < layers->size(); ++i) {
    VICINAL_ASSIGN_OR_RETURN(LayerDeclaration layer, ReadLayer((*layers)[i], i, previous));
    num_inputs += static_cast<int64_t>(layer.inputs.size());
    if (num_inputs > kMaxInputs) {
      return BadArchitecture(layer.field + ".inputs", "the layers up to " + layer.field + " read more than " +
                                                          std::to_string(kMaxInputs) + " inputs in total");
    }
    previous = layer.name;
    architecture.layers.push_back(std::move(layer));
  }
  return architecture;
}

}  // namespace

Status CheckDocumentKeys(const Json& json, const std::vector<std::string>& known) {
  static const std::vector<std::string>* const kMetadata = new std::vector<std::string>{
      "name", "description", "dataset", "torch_geometric", "test_accuracy", "pyg_float32_relative_error", "tensors"};
  for (const auto& item : json.items()) {
    if (Contains(known, item.key()) || Contains(*kMetadata, item.key())) continue;
    const std::string key = Printable(item.key());
    return BadArchitecture(
        key, absl::StrCat("the architecture has an unknown key '", key, "'; known here: ", absl::StrJoin(known, ", "),
                          "; accepted, but ignored: ", absl::StrJoin(*kMetadata, ", ")));
  }
  return OkStatus();
}

Status ReadTask(const Json& json, Architecture* architecture) {
  if (const auto task = json.find("task"); task != json.end()) {
    if (*task != "node" && *task != "graph") return BadArchitecture("task", "task must be \"node\" or \"graph\"");
    architecture->graph_level = *task == "graph";
  }
  VICINAL_RETURN_IF_ERROR(ReadBool(json, "multi_label", "", &architecture->multi_label));
  const auto target = json.find("target");
  if (target == json.end()) return OkStatus();
  if (*target != "multi_class" && *target != "multi_label" && *target != "regression")
    return BadArchitecture("target", "target must be \"multi_class\", \"multi_label\" or \"regression\"");
  const bool multi_label = *target == "multi_label";
  if (json.contains("multi_label") && architecture->multi_label != multi_label)
    return BadArchitecture("multi_label", "multi_label contradicts target; remove multi_label");
  architecture->multi_label = multi_label;
  architecture->regression = *target == "regression";
  return OkStatus();
}

StatusOr<std::vector<LayerDeclaration>> ParseNestedLayers(const Json& json, const std::string& prefix,
                                                          const std::string& field) {
  if (!json.is_array() || json.empty() || json.size() > kMaxLayers) {
    return BadArchitecture(field, field + " must be a list of 1 to " + std::to_string(kMaxLayers) + " layers");
  }
  std::vector<LayerDeclaration> layers;
  for (size_t i = 0; i < json.size(); ++i) {
    LayerDeclaration layer;
    layer.field = field + "[" + std::to_string(i) + "]";
    VICINAL_RETURN_IF_ERROR(CheckLayerKeys(json[i], {"type", "prefix", "args"}, layer.field));
    VICINAL_RETURN_IF_ERROR(ReadTypeAndArgs(json[i], &layer));
    std::string own = std::to_string(i) + ".";
    VICINAL_RETURN_IF_ERROR(ReadString(json[i], "prefix", layer.field, &own));
    layer.prefix = prefix + own;
    layers.push_back(std::move(layer));
  }
  return layers;
}

StatusOr<Architecture> ParseArchitecture(std::string_view text) {
  if (text.size() > kMaxDocumentBytes) {
    return InvalidArgument("BAD_JSON", "architecture_json",
                           "the architecture has " + std::to_string(text.size()) + " bytes; at most " +
                               std::to_string(kMaxDocumentBytes) + " are read");
  }
  VICINAL_ASSIGN_OR_RETURN(Json json, ParseStrictJson(text, "BAD_JSON", "the architecture"));
  if (!json.is_object())
    return InvalidArgument("BAD_JSON", "architecture_json", "the architecture must be a JSON object");
  VICINAL_ASSIGN_OR_RETURN(Architecture architecture,
                           json.contains("class") ? ReadReadyMade(json) : ReadExplicit(json));
  if (const auto decoder = json.find("decoder"); decoder != json.end()) architecture.decoder = *decoder;
  return architecture;
}

}  // namespace vicinal::internal
