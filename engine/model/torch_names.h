// SPDX-License-Identifier: Apache-2.0
// The names by which PyTorch Geometric's constructors take activations and norms ("relu", "batch_norm"), as layer
// types.
#ifndef VICINAL_ENGINE_MODEL_TORCH_NAMES_H_
#define VICINAL_ENGINE_MODEL_TORCH_NAMES_H_

#include <nlohmann/json.hpp>
#include <string>

#include "engine/base/status.h"

namespace vicinal::internal {

// The layer type that `value` names: a string in any case, with or without "_" and "-"; "" for null. `path` is its
// place in the document. BAD_ARCHITECTURE, UNSUPPORTED_ARGUMENT.
StatusOr<std::string> ActivationType(const nlohmann::json& value, const std::string& path);
StatusOr<std::string> NormType(const nlohmann::json& value, const std::string& path);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_TORCH_NAMES_H_
