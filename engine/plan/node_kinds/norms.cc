// SPDX-License-Identifier: Apache-2.0
// Normalisations: of each row to length 1, of each row (LayerNorm), of each graph.
#include "engine/plan/node_kinds/rowwise.h"

namespace vicinal::internal {

constinit const NodeTraits kNormalizeTraits = {
    .kind = NodeKind::kNormalize,
    .name = "normalize",
    .describe = DescribeRowwise,
    .bind = BindRowwise<RowwiseKind::kNormalize>,
};

constinit const NodeTraits kLayerNormTraits = {
    .kind = NodeKind::kLayerNorm,
    .name = "layer_norm",
    .fuses_epilogue = true,
    .describe = DescribeRowwise,
    .bind = BindRowwise<RowwiseKind::kLayerNorm>,
};

constinit const NodeTraits kGraphNormTraits = {
    .kind = NodeKind::kGraphNorm,
    .name = "graph_norm",
    .locality = Locality::kGraph,
    .fuses_epilogue = true,
    .describe = DescribeRowwise,
    .bind = BindPerGraph<RowwiseKind::kGraphNorm>,
};

}  // namespace vicinal::internal
