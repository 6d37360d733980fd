// SPDX-License-Identifier: Apache-2.0
// The softmax of each row, and its logarithm.
#include "engine/plan/node_kinds/rowwise.h"

namespace vicinal::internal {

constinit const NodeTraits kSoftmaxTraits = {
    .kind = NodeKind::kSoftmax,
    .name = "softmax",
    .describe = DescribeRowwise,
    .bind = BindRowwise<RowwiseKind::kSoftmax>,
};

constinit const NodeTraits kLogSoftmaxTraits = {
    .kind = NodeKind::kLogSoftmax,
    .name = "log_softmax",
    .describe = DescribeRowwise,
    .bind = BindRowwise<RowwiseKind::kLogSoftmax>,
};

}  // namespace vicinal::internal
