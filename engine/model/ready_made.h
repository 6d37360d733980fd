// SPDX-License-Identifier: Apache-2.0
// The ready-made classes of torch_geometric.nn.models (GCN, GraphSAGE, GIN, GAT, EdgeCNN) and their pooled form,
// expanded to the explicit list of layers that PyTorch Geometric's BasicGNN would run, with the names of its
// state_dict.
#ifndef VICINAL_ENGINE_MODEL_READY_MADE_H_
#define VICINAL_ENGINE_MODEL_READY_MADE_H_

#include <nlohmann/json.hpp>

#include "engine/base/status.h"
#include "engine/model/architecture.h"

namespace vicinal::internal {

// `json` is an object with a `class`. INVALID_ARGUMENT: BAD_ARCHITECTURE, UNSUPPORTED_ARGUMENT.
StatusOr<Architecture> ReadReadyMade(const nlohmann::json& json);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_READY_MADE_H_
