// SPDX-License-Identifier: Apache-2.0
// A model's vectors as a program holds them, in double, and the networks of edges: what is folded here is rounded once,
// when it is packed.
#ifndef VICINAL_ENGINE_PLAN_REWRITE_FOLD_H_
#define VICINAL_ENGINE_PLAN_REWRITE_FOLD_H_

#include <cstdint>
#include <vector>

#include "engine/model/model.h"
#include "engine/model/step.h"
#include "engine/plan/rewrite/program.h"

namespace vicinal::internal {

ParametersRef ToParameters(const WeightRef& weight);  // null for null

// BatchNorm in evaluation as x * scale + shift, per column.
struct Affine {
  ParametersRef scale, shift;  // [width]
};
Affine ToAffine(const BatchNormStep& norm);

// A message MLP as dense layers, each activation(x W^T + b): normalisations become part of the product before them,
// or of the one after them where an activation stands in between, or a diagonal W where there is none.
std::vector<MessageLayer> FoldMessageMlp(const std::vector<EdgeConvOp>& nn);

// Upper bound of the host bytes that rewriting `model` holds at once: its program, and what is made of weights.
int64_t RewriteBytesBound(const Model& model);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_REWRITE_FOLD_H_
