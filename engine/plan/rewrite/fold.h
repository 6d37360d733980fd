// SPDX-License-Identifier: Apache-2.0
// Converts a model's vectors and message MLPs to those of a program, in double. Folded values are rounded once, when
// they are packed.
#ifndef VICINAL_ENGINE_PLAN_REWRITE_FOLD_H_
#define VICINAL_ENGINE_PLAN_REWRITE_FOLD_H_

#include <cstdint>
#include <vector>

#include "engine/model/model.h"
#include "engine/model/step.h"
#include "engine/plan/rewrite/program.h"

namespace vicinal::internal {

ParametersRef ToParameters(const WeightRef& weight);  // null for null

// BatchNorm with running statistics as x * scale + shift, per column.
struct Affine {
  ParametersRef scale, shift;  // [width]
};
Affine ToAffine(const BatchNormStep& norm);

// The message MLP `nn` as dense layers, each activation(x W^T + b). A normalisation becomes part of the product before
// it; after an activation, part of the next product; without a next product, a product with a diagonal W.
std::vector<MessageLayer> FoldMessageMlp(const std::vector<EdgeConvOp>& nn);

// Upper bound of the host bytes for rewriting `model`: its program, and matrices computed from weights.
int64_t RewriteBytesBound(const Model& model);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_REWRITE_FOLD_H_
