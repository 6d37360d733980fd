// SPDX-License-Identifier: Apache-2.0
// Programs that a step with kernels of its own computes: those are faster, and some run on GPUs.
#ifndef VICINAL_ENGINE_MODEL_EXPRESSIONS_MATCH_STEPS_H_
#define VICINAL_ENGINE_MODEL_EXPRESSIONS_MATCH_STEPS_H_

#include <vector>

#include "engine/model/layer_type.h"

namespace vicinal::internal {

// Emits the step that computes the same as `step` of `inputs`, and returns its output. -1: there is none.
ValueId EmitMatchingStep(const LayerContext& context, const ExpressionStep& step, const std::vector<ValueId>& inputs);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_EXPRESSIONS_MATCH_STEPS_H_
