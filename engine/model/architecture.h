// SPDX-License-Identifier: Apache-2.0
// A declared architecture: the explicit list of layers of docs/formats.md. Ready-made classes are expanded to the same
// list (ready_made.h). Nothing is resolved yet: types, arguments and tensors are checked when layers are lowered.
#ifndef VICINAL_ENGINE_MODEL_ARCHITECTURE_H_
#define VICINAL_ENGINE_MODEL_ARCHITECTURE_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace vicinal::internal {

inline constexpr int64_t kMaxLayers = 4096;
// Total inputs of all layers: planning visits each of them many times.
inline constexpr int64_t kMaxInputs = 16384;
// Total steps of all layers, for the same reason.
inline constexpr size_t kMaxSteps = 32768;
// The name of the model's input.
inline constexpr char kInputName[] = "x";

struct LayerDeclaration {
  std::string name;
  std::string type;
  std::string prefix;               // of its tensor names
  std::vector<std::string> inputs;  // "x" or earlier layers
  bool edge_weight = false;
  nlohmann::json args = nlohmann::json::object();
  // Path in the client's document, for messages: "layers[2]" and "layers[2].args", or "kwargs" for both.
  std::string field;
  std::string args_field;
};

struct Architecture {
  int64_t in_channels = 0;
  bool graph_level = false;
  bool multi_label = false;
  bool regression = false;
  std::vector<LayerDeclaration> layers;
  nlohmann::json decoder;  // as in the document; null: none
};

// INVALID_ARGUMENT: BAD_JSON, BAD_ARCHITECTURE, UNSUPPORTED_ARGUMENT.
StatusOr<Architecture> ParseArchitecture(std::string_view text);

// The layers of a list nested in a layer's argument (GINConv's nn): `type`, `args` and optionally `prefix` each;
// prefixes are appended to `prefix`; default "0.", "1.", ... as in torch.nn.Sequential.
StatusOr<std::vector<LayerDeclaration>> ParseNestedLayers(const nlohmann::json& json, const std::string& prefix,
                                                          const std::string& field);

// BAD_ARCHITECTURE if `json` has keys other than `known` and the notes that model documents may contain (name, dataset,
// ...).
Status CheckDocumentKeys(const nlohmann::json& json, const std::vector<std::string>& known);

// Reads `task` ("node", "graph") and `target` ("multi_class", "multi_label", "regression"), for whose second value
// `multi_label` is short.
Status ReadTask(const nlohmann::json& json, Architecture* architecture);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_ARCHITECTURE_H_
