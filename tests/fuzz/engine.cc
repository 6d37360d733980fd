// SPDX-License-Identifier: Apache-2.0
// Files that reach the engine: safetensors, and a model's JSON with its weights.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/model/model.h"
#include "engine/model/safetensors.h"
#include "tests/fuzz/target.h"

namespace vicinal::fuzz {
namespace {

void ReadSafetensors(std::string_view input) {
  const auto file = Safetensors::Parse(input);
  if (!file.ok()) return CheckError(file.status());
  for (const auto& [name, entry] : file->entries()) {
    const char* const begin = entry.bytes.data();
    FUZZ_CHECK(
        entry.bytes.empty() || (begin >= input.data() && begin + entry.bytes.size() <= input.data() + input.size()),
        name);
    if (const auto floats = Safetensors::ToFloats(entry, name); !floats.ok()) CheckError(floats.status());
    if (const auto ints = Safetensors::ToInts(entry, name); !ints.ok()) CheckError(ints.status());
  }
}

// The JSON, a byte 0, the weights.
void ModelJson(std::string_view input) {
  const size_t end = input.find('\0');
  const std::string_view weights = end == std::string_view::npos ? std::string_view() : input.substr(end + 1);
  const auto model = LoadModel(input.substr(0, end), weights);
  if (!model.ok()) return CheckError(model.status());
  const Model& made = **model;
  FUZZ_CHECK(made.feature_count > 0 && made.class_count > 0, "channels");
  FUZZ_CHECK(made.FindOutput("logits") != nullptr, "logits");
  for (const NamedOutput& output : made.outputs) {
    FUZZ_CHECK(output.value >= 0 && output.value < made.num_values && output.width > 0, output.name);
  }
}

// The text of a message function, with tensors that it may name.
void MessageExpression(std::string_view input) {
  const nlohmann::json document = {
      {"format", "vicinal.model/1"},
      {"in_channels", 4},
      {"layers",
       {{{"name", "c"},
         {"type", "MessagePassing"},
         {"edge_weight", input.find("edge_weight") != std::string_view::npos},
         {"args",
          {{"message", std::string(input)},
           {"edge_dim", input.find("edge_attr") != std::string_view::npos ? nlohmann::json(3) : nlohmann::json()}}}}}}};
  constexpr std::string_view kHeader =
      R"({"c.W":{"dtype":"F32","shape":[2,4],"data_offsets":[0,32]},"c.b":{"dtype":"F32","shape":[2],"data_offsets":[32,40]},)"
      R"("c.lin.weight":{"dtype":"F32","shape":[3,3],"data_offsets":[40,76]},"c.row":{"dtype":"F32","shape":[4],"data_offsets":[76,92]}})";
  std::string weights(8, '\0');
  weights[0] = static_cast<char>(kHeader.size() % 256);
  weights[1] = static_cast<char>(kHeader.size() / 256);
  weights += kHeader;
  weights.resize(weights.size() + 92, '\0');
  const std::string text = document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const auto model = LoadModel(text, weights);
  // Unused tensors are an error, which most inputs end in: everything before was read.
  if (!model.ok()) return CheckError(model.status());
  FUZZ_CHECK((*model)->class_count > 0, "columns");
}

}  // namespace

std::vector<Target> EngineTargets() {
  return {{"safetensors", "safetensors", ReadSafetensors},
          {"model_json", "model_json", ModelJson},
          {"message_expression", "message_expression", MessageExpression}};
}

}  // namespace vicinal::fuzz
