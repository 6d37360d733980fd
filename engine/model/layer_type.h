// SPDX-License-Identifier: Apache-2.0
// A layer type: its arguments, and a function that lowers one layer to steps. CONTRIBUTING.md,
// "Recipe: a new layer", describes how to add one.
#ifndef VICINAL_ENGINE_MODEL_LAYER_TYPE_H_
#define VICINAL_ENGINE_MODEL_LAYER_TYPE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/model/architecture.h"
#include "engine/model/arguments.h"
#include "engine/model/model.h"
#include "engine/model/step.h"
#include "engine/model/tensor_binder.h"

namespace vicinal::internal {

// Attention of a layer that has no AttentionStep: the terms of its scores are products of `input` with `weights`, side
// by side.
struct DeclaredAttention {
  int32_t layer = 0;  // set by StepList
  AttentionScore score = AttentionScore::kSuperGat;
  AttentionStep step;  // as AttentionSource::step
  ValueId input = 0;
  std::vector<WeightRef> weights;
};

// The steps of a model under construction, and the shape of each value.
class StepList {
 public:
  explicit StepList(int64_t input_width) { values_.push_back({input_width, false}); }

  // Appends a step of the current layer and returns its output. Rows are per graph after a readout, per node after an
  // expansion, otherwise as in the inputs.
  ValueId Emit(StepOp op, std::vector<ValueId> inputs, int64_t width);

  // Of the current layer. If it declares several, as DirGNNConv does, its weights cannot be asked for.
  void Declare(DeclaredAttention attention);
  const std::vector<DeclaredAttention>& attention() const { return attention_; }

  // From step `first` on, what reads in-edges reads out-edges, and the other way round.
  void TurnRound(size_t first);

  int64_t width(ValueId value) const { return values_[value].width; }
  bool per_graph(ValueId value) const { return values_[value].per_graph; }
  void set_layer(int32_t layer) { layer_ = layer; }
  const std::vector<Step>& steps() const { return steps_; }
  std::vector<Step> TakeSteps() { return std::move(steps_); }
  int32_t num_values() const { return static_cast<int32_t>(values_.size()); }

 private:
  struct ValueInfo {
    int64_t width = 0;
    bool per_graph = false;
  };
  std::vector<ValueInfo> values_;
  std::vector<Step> steps_;
  std::vector<DeclaredAttention> attention_;
  int32_t layer_ = 0;
};

// The context of lowering one layer.
struct LayerContext {
  const LayerDeclaration& declaration;
  const Arguments& args;
  const std::vector<ValueId>& inputs;
  StepList& steps;
  TensorBinder& tensors;
  bool graph_level = false;  // the model answers per graph, so batches contain several graphs
  bool nested = false;       // inside another layer's argument

  ValueId input() const { return inputs[0]; }
  int64_t input_width() const { return steps.width(inputs[0]); }
  // "layer 'conv1' (GCNConv)"
  std::string Describe() const;
  // The tensor `prefix + suffix`; see TensorBinder::Bind.
  StatusOr<WeightRef> Tensor(const std::string& suffix, const std::vector<int64_t>& expected,
                             const std::vector<int64_t>& stored = {}) const;
  // BAD_ARCHITECTURE unless the argument is open (absent, null, -1) or the width of the input.
  Status CheckInChannels(std::string_view argument) const;
};

struct LayerType {
  std::string name;
  std::vector<ArgumentSpec> arguments;
  size_t min_inputs = 1;
  size_t max_inputs = 1;
  bool node_rows = false;          // its input must have one row per node, not per graph
  bool convolution = false;        // propagates along edges; implies node_rows
  bool takes_edge_weight = false;  // `edge_weight` may be true
  bool nestable = false;           // may be nested in another layer (GINConv's nn)
  // Returns the layer's output. The number of inputs and all arguments are checked before.
  StatusOr<ValueId> (*lower)(const LayerContext& context) = nullptr;
};

// Null if there is none of that name.
const LayerType* FindLayerType(const std::string& name);
// All of them, in alphabetical order.
const std::vector<LayerType>& LayerTypes();

// Finds the type, reads the arguments, checks number and rows of the inputs, and lowers. Ignores `layer.inputs`.
StatusOr<ValueId> LowerLayer(const LayerDeclaration& layer, const std::vector<ValueId>& inputs, StepList& steps,
                             TensorBinder& tensors, bool graph_level, bool nested, std::string* arguments_json);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_LAYER_TYPE_H_
