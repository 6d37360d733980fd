// SPDX-License-Identifier: Apache-2.0
// Loads a model: architecture -> layers -> steps bound to weights -> named outputs. The document is checked before the
// weights, so that a message speaks of the first thing to mend.
#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/model/architecture.h"
#include "engine/model/layer_type.h"
#include "engine/model/load_decoder.h"
#include "engine/model/model.h"

namespace vicinal {
namespace {

using internal::Architecture;
using internal::LayerDeclaration;
using internal::LayerType;
using internal::StepList;
using internal::TensorBinder;

using ValueOfName = std::map<std::string, ValueId>;

StatusOr<std::vector<ValueId>> ResolveInputs(const LayerDeclaration& layer, const ValueOfName& values) {
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < layer.inputs.size(); ++i) {
    const auto it = values.find(layer.inputs[i]);
    if (it == values.end()) {
      const std::string field = layer.field + ".inputs[" + std::to_string(i) + "]";
      return internal::BadArchitecture(field, field + " is '" + Printable(layer.inputs[i]) +
                                                  "', which is not a layer before layer '" + layer.name +
                                                  "', nor \"x\"");
    }
    inputs.push_back(it->second);
  }
  return inputs;
}

// Notes that a step of `layer` reads `width` features of each edge. A graph has one width.
Status TakeEdgeWidth(const LayerDeclaration& layer, int64_t width, Model& model) {
  if (width == 0 || width == model.edge_feature_width) return OkStatus();
  if (model.edge_feature_width == 0) {
    model.edge_feature_width = width;
    return OkStatus();
  }
  return internal::BadArchitecture(layer.field, "layer '" + layer.name + "' reads " + std::to_string(width) +
                                                    " features of each edge, but a layer before it reads " +
                                                    std::to_string(model.edge_feature_width) +
                                                    "; all layers must read the same edge_attr");
}

// Lowers `layer`, appends its ModelLayer.
Status AddLayer(const LayerDeclaration& layer, bool graph_level, StepList& steps, TensorBinder& tensors,
                ValueOfName& values, Model& model, ValueId& last_conv_input) {
  if (values.contains(layer.name)) {
    return internal::BadArchitecture(layer.field + ".name", "the name '" + layer.name + "' is used by two layers");
  }
  VICINAL_ASSIGN_OR_RETURN(const std::vector<ValueId> inputs, ResolveInputs(layer, values));
  ModelLayer info{{layer.name, layer.type, "", layer.prefix, layer.inputs}};
  const size_t first_step = steps.steps().size();
  steps.set_layer(static_cast<int32_t>(model.layers.size()));
  VICINAL_ASSIGN_OR_RETURN(
      info.output, internal::LowerLayer(layer, inputs, steps, tensors, graph_level, false, &info.arguments_json));
  if (steps.steps().size() > internal::kMaxSteps) {
    return internal::BadArchitecture(layer.field, "the layers up to '" + layer.name + "' make more than " +
                                                      std::to_string(internal::kMaxSteps) +
                                                      " steps in total; use fewer layers or a smaller K");
  }
  for (size_t i = first_step; i < steps.steps().size(); ++i) {
    info.locality = std::max(info.locality, LocalityOf(steps.steps()[i].op));
    VICINAL_RETURN_IF_ERROR(TakeEdgeWidth(layer, EdgeWidthOf(steps.steps()[i].op), model));
  }
  info.width = steps.width(info.output);
  values[layer.name] = info.output;
  if (internal::FindLayerType(layer.type)->convolution) last_conv_input = inputs[0];
  model.uses_edge_weight = model.uses_edge_weight || layer.edge_weight;
  model.layers.push_back(std::move(info));
  return OkStatus();
}

Status CheckEnd(const Architecture& architecture, const StepList& steps, const Model& model) {
  const ModelLayer& last = model.layers.back();
  const std::string field = architecture.layers.back().field;
  if (last.output == kInputValue) {
    return internal::BadArchitecture(
        field, "the model ends in layer '" + last.name + "', which returns its input unchanged; it computes nothing");
  }
  const bool per_graph = steps.per_graph(last.output);
  if (per_graph == architecture.graph_level) return OkStatus();
  return internal::BadArchitecture(
      "task", per_graph ? "the model ends in one row per graph: its task must be \"graph\""
                        : "the task is \"graph\", but the model ends in one row per node: it needs a readout, such as "
                          "global_add_pool");
}

void AddOutputs(const StepList& steps, ValueId last_conv_input, Model& model) {
  const auto add = [&](const std::string& name, ValueId value) {
    if (value != kInputValue) model.outputs.push_back({name, value, steps.width(value)});
  };
  for (const ModelLayer& layer : model.layers) add(layer.name, layer.output);
  add("logits", model.layers.back().output);
  add("last_conv_input", last_conv_input);
}

// What the terms of one layer's attention are named.
NamedOutput TermsOf(const StepList& steps, const std::string& layer, ValueId terms) {
  return {layer + ":attention", terms, steps.width(terms)};
}

// What the weights of each layer with one AttentionStep are made of. Appends steps that no layer reads.
std::vector<std::pair<int32_t, AttentionSource>> AttentionOfSteps(StepList& steps, const Model& model) {
  std::vector<std::pair<int32_t, AttentionSource>> found;
  const size_t count = steps.steps().size();
  std::map<int32_t, int> of_layer;  // number of attention steps: DirGNNConv has two, one of them over out-edges
  for (const Step& step : steps.steps()) of_layer[step.layer] += std::holds_alternative<AttentionStep>(step.op) ? 1 : 0;
  for (size_t i = 0; i < count; ++i) {
    const auto* const attention = std::get_if<AttentionStep>(&steps.steps()[i].op);
    if (attention == nullptr || of_layer[steps.steps()[i].layer] > 1) continue;
    const AttentionStep step = *attention;
    const std::vector<ValueId> inputs = steps.steps()[i].inputs;
    const int32_t layer = steps.steps()[i].layer;
    ValueId terms = inputs[0];
    if (step.kind != AttentionKind::kGat && inputs.front() != inputs.back()) {
      const ValueId sources = step.kind == AttentionKind::kDot ? inputs[2] : inputs[0];
      steps.set_layer(layer);
      terms = steps.Emit(ConcatStep{}, {sources, inputs[1]}, steps.width(sources) + steps.width(inputs[1]));
    }
    const std::string& name = model.layers[static_cast<size_t>(layer)].name;
    found.emplace_back(layer, AttentionSource{name, TermsOf(steps, name, terms), step});
  }
  return found;
}

// Matrices of equally many columns, one below the other.
WeightRef Stacked(const std::vector<WeightRef>& weights) {
  if (weights.size() == 1) return weights[0];
  auto stacked = std::make_shared<Weight>(Weight{"terms of attention", {0, weights[0]->shape[1]}, {}});
  for (const WeightRef& weight : weights) {
    stacked->shape[0] += weight->shape[0];
    stacked->values.insert(stacked->values.end(), weight->values.begin(), weight->values.end());
  }
  return stacked;
}

// The same of what layers declare: one step each, as a plan has only the step that makes its output.
std::vector<std::pair<int32_t, AttentionSource>> AttentionOfDeclarations(StepList& steps, const Model& model) {
  std::vector<std::pair<int32_t, AttentionSource>> found;
  std::map<int32_t, int> of_layer;
  for (const internal::DeclaredAttention& declared : steps.attention()) ++of_layer[declared.layer];
  for (const internal::DeclaredAttention& declared : steps.attention()) {
    if (of_layer[declared.layer] > 1) continue;
    steps.set_layer(declared.layer);
    const WeightRef weight = Stacked(declared.weights);
    const ValueId terms = steps.Emit(LinearStep{weight, nullptr}, {declared.input}, weight->shape[0]);
    const std::string& name = model.layers[static_cast<size_t>(declared.layer)].name;
    found.emplace_back(declared.layer,
                       AttentionSource{name, TermsOf(steps, name, terms), declared.step, declared.score});
  }
  return found;
}

void AddAttention(StepList& steps, Model& model) {
  std::vector<std::pair<int32_t, AttentionSource>> found = AttentionOfSteps(steps, model);
  for (auto& declared : AttentionOfDeclarations(steps, model)) found.push_back(std::move(declared));
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [layer, source] : found) model.attention.push_back(std::move(source));
}

int64_t SizeOf(const Model& model) {
  std::set<const Weight*> seen;
  int64_t bytes =
      static_cast<int64_t>(sizeof(Model) + (model.steps.size() + model.attention_steps.size()) * sizeof(Step) +
                           model.layers.size() * sizeof(ModelLayer));
  const auto add = [&](const std::vector<WeightRef>& weights) {
    for (const WeightRef& weight : weights) {
      if (weight != nullptr && seen.insert(weight.get()).second)
        bytes += static_cast<int64_t>(sizeof(Weight) + weight->values.size() * sizeof(float));
    }
  };
  for (const Step& step : model.steps) add(WeightsOf(step.op));
  for (const Step& step : model.attention_steps) add(WeightsOf(step.op));
  if (model.decoder) add(model.decoder->weights());
  return bytes;
}

}  // namespace

const NamedOutput* Model::FindOutput(std::string_view name) const {
  for (const NamedOutput& output : outputs) {
    if (output.name == name) return &output;
  }
  return nullptr;
}

const AttentionSource* Model::FindAttention(std::string_view layer) const {
  for (const AttentionSource& source : attention) {
    if (source.layer == layer) return &source;
  }
  return nullptr;
}

StatusOr<std::shared_ptr<const Model>> LoadModel(std::string_view architecture_json, std::string_view weights_file) {
  VICINAL_ASSIGN_OR_RETURN(const Architecture architecture, internal::ParseArchitecture(architecture_json));
  VICINAL_ASSIGN_OR_RETURN(const Safetensors file, Safetensors::Parse(weights_file));
  auto model = std::make_shared<Model>();
  model->feature_count = architecture.in_channels;
  model->graph_level = architecture.graph_level;
  model->multi_label = architecture.multi_label;
  model->regression = architecture.regression;
  StepList steps(architecture.in_channels);
  TensorBinder tensors(file);
  ValueOfName values = {{internal::kInputName, kInputValue}};
  ValueId last_conv_input = kInputValue;
  for (const LayerDeclaration& layer : architecture.layers) {
    VICINAL_RETURN_IF_ERROR(AddLayer(layer, architecture.graph_level, steps, tensors, values, *model, last_conv_input));
  }
  VICINAL_RETURN_IF_ERROR(CheckEnd(architecture, steps, *model));
  model->class_count = model->layers.back().width;
  AddOutputs(steps, last_conv_input, *model);
  if (!architecture.decoder.is_null()) {
    VICINAL_ASSIGN_OR_RETURN(model->decoder, internal::LoadDecoder(architecture.decoder, *model, tensors));
  }
  VICINAL_RETURN_IF_ERROR(tensors.CheckAllUsed());
  const auto of_layers = static_cast<std::ptrdiff_t>(steps.steps().size());
  AddAttention(steps, *model);
  model->num_values = steps.num_values();
  model->steps = steps.TakeSteps();
  model->attention_steps.assign(std::make_move_iterator(model->steps.begin() + of_layers),
                                std::make_move_iterator(model->steps.end()));
  model->steps.erase(model->steps.begin() + of_layers, model->steps.end());
  model->parameter_count = tensors.parameter_count();
  model->size_bytes = SizeOf(*model);
  return std::shared_ptr<const Model>(std::move(model));
}

std::vector<LayerTypeInfo> SupportedLayerTypes() {
  std::vector<LayerTypeInfo> infos;
  for (const LayerType& type : internal::LayerTypes()) {
    LayerTypeInfo info;
    info.type = type.name;
    for (const internal::ArgumentSpec& spec : type.arguments) {
      (spec.kind == internal::ArgumentKind::kRefused ? info.refused : info.supported).push_back(spec.name);
    }
    infos.push_back(std::move(info));
  }
  return infos;
}

}  // namespace vicinal
