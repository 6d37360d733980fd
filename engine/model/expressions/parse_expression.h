// SPDX-License-Identifier: Apache-2.0
// The text of a message function: definitions `name = expression;` and a last expression (docs/message_passing.md has
// the grammar). Data, never code: parsing calls nothing, and its time and depth are bounded.
#ifndef VICINAL_ENGINE_MODEL_EXPRESSIONS_PARSE_EXPRESSION_H_
#define VICINAL_ENGINE_MODEL_EXPRESSIONS_PARSE_EXPRESSION_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/model/expressions/expressions.h"
#include "engine/model/layer_type.h"

namespace vicinal::internal {

// Names that stand for values: variables, and what earlier texts defined.
using ExpressionScope = std::map<std::string, int32_t, std::less<>>;

// The value of `text`, whose definitions join `scope`. Other names are tensors of the layer (`context`), whose shapes
// types are checked against. BAD_ARCHITECTURE at `field`, with line and column; TENSOR_MISSING and what else Bind says.
StatusOr<int32_t> ParseExpression(std::string_view text, const std::string& field, const LayerContext& context,
                                  Expressions* expressions, ExpressionScope* scope);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_EXPRESSIONS_PARSE_EXPRESSION_H_
