// SPDX-License-Identifier: Apache-2.0
// The aggregation problem of a kPropagate, for its own binding and for the pass that fuses products into it.
#ifndef VICINAL_ENGINE_PLAN_NODE_KINDS_PROPAGATE_H_
#define VICINAL_ENGINE_PLAN_NODE_KINDS_PROPAGATE_H_

#include <cstdint>
#include <string>

#include "engine/plan/build/build_context.h"

namespace vicinal::internal {

// Like ProductRefusal (rewrite/rewrite.h): why the kernel for `node` cannot multiply its sums by W
// [out_width, width]; empty: it can.
std::string WhyProductUnsupported(BuildContext* context, const Node& node, int64_t out_width);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_NODE_KINDS_PROPAGATE_H_
