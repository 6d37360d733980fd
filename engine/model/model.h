// SPDX-License-Identifier: Apache-2.0
// A model: its declared layers, bound to weights and lowered to steps. Immutable, shared by handle.
#ifndef VICINAL_ENGINE_MODEL_MODEL_H_
#define VICINAL_ENGINE_MODEL_MODEL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/api/resources.h"
#include "engine/base/status.h"
#include "engine/model/decoder.h"
#include "engine/model/step.h"

namespace vicinal {

// A layer, and the value that it computes.
struct ModelLayer : LayerInfo {
  ValueId output = 0;
};

// An output for Embed.
struct NamedOutput {
  std::string name;
  ValueId value = 0;
  int64_t width = 0;
};

// What makes a score of the terms of an edge's two ends, s (source) and t (target), per head.
enum class AttentionScore {
  kOfStep,       // as AttentionStep::kind says
  kSuperGat,     // leaky_relu((att_src . s + att_dst . t) sigmoid(s . t))
  kSuperGatDot,  // leaky_relu(s . t / sqrt(head_width))
  kTanh,         // tanh(s_0 + t_1), the weight itself: there is no softmax
};

// A layer whose attention weights can be asked for, and the values that its scores are made of, side by side.
struct AttentionSource {
  std::string layer;
  // kGat: h, kGatV2: x_l and x_r, or only x_l where both are one value; kDot: keys and queries; each [N, K*C]. The same
  // of kSuperGat and kSuperGatDot: h. kTanh: att_l . x and att_r . x. Its name is none that a layer may have.
  NamedOutput terms;
  AttentionStep step;  // for other scores than kOfStep: adjacency, heads, head_width, negative_slope, att_src, att_dst
  AttentionScore score = AttentionScore::kOfStep;
};

struct Model {
  int64_t feature_count = 0;  // F
  int64_t class_count = 0;    // C
  bool graph_level = false;   // ends in one row per graph
  bool multi_label = false;
  bool regression = false;         // answers are numbers, not scores of classes
  bool uses_edge_weight = false;   // some layer needs a weighted graph
  int64_t edge_feature_width = 0;  // features that layers read of each edge; 0: none does
  std::vector<ModelLayer> layers;
  std::vector<Step> steps;  // in execution order: inputs come before outputs
  // Of `attention` alone: no layer reads their outputs.
  std::vector<Step> attention_steps;
  int32_t num_values = 1;  // values are 0 .. num_values - 1; each but 0 is the output of one step
  // Each layer's name, "logits" (the last output), "last_conv_input" (if there is a convolution); none is the input
  // itself.
  std::vector<NamedOutput> outputs;
  std::vector<AttentionSource> attention;  // in the order of the layers
  std::optional<Decoder> decoder;          // of links; nullopt: the document has none
  int64_t parameter_count = 0;
  int64_t size_bytes = 0;

  // Null if there is none of that name.
  const NamedOutput* FindOutput(std::string_view name) const;
  const AttentionSource* FindAttention(std::string_view layer) const;
};

// Reads an architecture (an explicit list of layers, or a ready-made class of torch_geometric.nn.models as in
// tests/data/models/*.json; docs/formats.md) and binds it to the tensors of a safetensors file. INVALID_ARGUMENT, with
// a reason:
//   BAD_JSON, BAD_ARCHITECTURE (field = path in the document: "layers[2].args.heads"; unknown layer types, arguments,
//   inputs, values out of range), UNSUPPORTED_ARGUMENT (a known but unsupported argument of PyTorch Geometric,
//   by name), TENSOR_MISSING, TENSOR_SHAPE (tensor's name, both shapes), TENSOR_UNUSED (names the first; bookkeeping
//   like num_batches_tracked is ignored), TENSOR_VALUE (a negative running variance), BAD_SAFETENSORS, NOT_FINITE.
StatusOr<std::shared_ptr<const Model>> LoadModel(std::string_view architecture_json, std::string_view weights_file);

// All layer types, in alphabetical order.
std::vector<LayerTypeInfo> SupportedLayerTypes();

}  // namespace vicinal

#endif  // VICINAL_ENGINE_MODEL_MODEL_H_
