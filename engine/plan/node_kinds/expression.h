// SPDX-License-Identifier: Apache-2.0
// Which messages the operation expression carries out in place of message_reduce, for the pass that rewrites them.
#ifndef VICINAL_ENGINE_PLAN_NODE_KINDS_EXPRESSION_H_
#define VICINAL_ENGINE_PLAN_NODE_KINDS_EXPRESSION_H_

#include <string>

#include "engine/plan/build/build_context.h"

namespace vicinal::internal {

// Whether the device has a kernel that may compile expressions.
bool MayCompileExpressions(const BuildContext& context);

// Like ExpressionRefusal (rewrite/rewrite.h): why the messages of `node`, a kMessageReduce, stay as they are; empty:
// `step` is computed in their place.
std::string WhyNotExpressed(BuildContext* context, const Node& node, const ExpressionStep& step);
// The same for a product per edge.
std::string WhyNotPerEdge(BuildContext* context, const Node& node, const ExpressionStep& step);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_NODE_KINDS_EXPRESSION_H_
