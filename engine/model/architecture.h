// SPDX-License-Identifier: Apache-2.0
// An architecture as declared: the explicit list of layers that docs/formats.md describes. Ready-made classes become
// the same list (ready_made.h), so that there is one way from here on. Nothing is looked up yet: types, arguments and
// tensors are checked when layers are lowered.
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
// Inputs of all layers together: planning looks at each of them many times.
inline constexpr int64_t kMaxInputs = 16384;
// Steps of all layers together: the same.
inline constexpr size_t kMaxSteps = 32768;
// Name of the model's input among the layers' names.
inline constexpr char kInputName[] = "x";

struct LayerDeclaration {
  std::string name;
  std::string type;
  std::string prefix;               // of its tensors' names
  std::vector<std::string> inputs;  // "x" or layers before it
  bool edge_weight = false;
  nlohmann::json args = nlohmann::json::object();
  // Where it stands in the client's document, for messages: "layers[2]" and "layers[2].args", or "kwargs" for both.
  std::string field;
  std::string args_field;
};

struct Architecture {
  int64_t in_channels = 0;
  bool graph_level = false;
  bool multi_label = false;
  std::vector<LayerDeclaration> layers;
};

// INVALID_ARGUMENT: BAD_JSON, BAD_ARCHITECTURE, UNSUPPORTED_ARGUMENT.
StatusOr<Architecture> ParseArchitecture(std::string_view text);

// The layers of a list nested in a layer's argument (GINConv's nn): `type`, `args` and optionally `prefix` each;
// prefixes are appended to `prefix`, by default "0.", "1.", ... as torch.nn.Sequential has it.
StatusOr<std::vector<LayerDeclaration>> ParseNestedLayers(const nlohmann::json& json, const std::string& prefix,
                                                          const std::string& field);

// Fails with BAD_ARCHITECTURE unless `json` has keys of `known` or of the metadata that descriptions of models carry
// (name, dataset, ...).
Status CheckDocumentKeys(const nlohmann::json& json, const std::vector<std::string>& known);

// Reads `task` ("node", "graph") and `multi_label`.
Status ReadTask(const nlohmann::json& json, Architecture* architecture);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_ARCHITECTURE_H_
