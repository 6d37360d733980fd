// SPDX-License-Identifier: Apache-2.0
// Files that reach the engine: safetensors, and a model's JSON with its weights.
#include <cstdint>

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

}  // namespace

std::vector<Target> EngineTargets() {
  return {{"safetensors", "safetensors", ReadSafetensors}, {"model_json", "model_json", ModelJson}};
}

}  // namespace vicinal::fuzz
