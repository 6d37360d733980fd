// SPDX-License-Identifier: Apache-2.0
// Reads the section `decoder` of a model's document and binds it to the model's tensors.
#ifndef VICINAL_ENGINE_MODEL_LOAD_DECODER_H_
#define VICINAL_ENGINE_MODEL_LOAD_DECODER_H_

#include <nlohmann/json.hpp>

#include "engine/base/status.h"
#include "engine/model/decoder.h"
#include "engine/model/model.h"
#include "engine/model/tensor_binder.h"

namespace vicinal::internal {

// `model` has its outputs. INVALID_ARGUMENT: BAD_ARCHITECTURE, UNSUPPORTED_ARGUMENT (field = path in the document), and
// the binder's errors.
StatusOr<Decoder> LoadDecoder(const nlohmann::json& json, const Model& model, TensorBinder& tensors);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_LOAD_DECODER_H_
