// SPDX-License-Identifier: Apache-2.0
// Whether the operation message_reduce has a kernel for a node, for the pass that gives its messages to another one.
#ifndef VICINAL_ENGINE_PLAN_NODE_KINDS_MESSAGE_REDUCE_H_
#define VICINAL_ENGINE_PLAN_NODE_KINDS_MESSAGE_REDUCE_H_

#include <string>

#include "engine/plan/build/build_context.h"

namespace vicinal::internal {

// Why no kernel of the device, or not the forced one, computes the messages of `node`, a kMessageReduce of
// `context->program`; empty: one does.
std::string WhyNoMessageKernel(BuildContext* context, const Node& node);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_NODE_KINDS_MESSAGE_REDUCE_H_
