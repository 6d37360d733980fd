// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/cli/architecture_notes.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/cli/proto_json.h"

namespace vicinal::client::cli {
namespace {

const Json& At(const Json& object, const char* key) {
  static const Json kNothing;
  if (!object.is_object()) return kNothing;
  const auto found = object.find(key);
  return found == object.end() ? kNothing : *found;
}

// Adds the names of LayerNorms without a mode, those inside another layer's `nn` by their place: 'conv1.nn[1]'.
void FindLayerNorms(const Json& layers, const std::string& inside, std::vector<std::string>* found) {
  if (!layers.is_array()) return;
  for (size_t i = 0; i < layers.size(); ++i) {
    const Json &own = At(layers[i], "name"), &args = At(layers[i], "args");
    const std::string name =
        inside.empty() && own.is_string() ? own.get<std::string>() : absl::StrCat(inside, "[", i, "]");
    if (At(layers[i], "type") == "LayerNorm" && At(args, "mode").is_null())
      found->push_back(absl::StrCat("'", name, "'"));
    FindLayerNorms(At(args, "nn"), absl::StrCat(name, ".nn"), found);
  }
}

}  // namespace

std::vector<std::string> ArchitectureNotes(std::string_view architecture_json) {
  const Json architecture = Json::parse(architecture_json, nullptr, /*allow_exceptions=*/false);
  std::vector<std::string> norms;
  FindLayerNorms(At(architecture, "layers"), "", &norms);
  if (norms.empty()) return {};
  return {
      absl::StrCat(norms.size() == 1 ? "layer " : "layers ", absl::StrJoin(norms, ", "),
                   " (LayerNorm) without a mode: the server uses PyTorch Geometric's default, \"graph\", one mean over "
                   "all nodes; torch.nn.LayerNorm is \"args\": {\"mode\": \"node\"}. Only answers show the "
                   "difference: --reference FILE checks them")};
}

}  // namespace vicinal::client::cli
