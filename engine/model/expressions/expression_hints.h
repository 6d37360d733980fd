// SPDX-License-Identifier: Apache-2.0
// What to write in an expression instead of what Python, PyTorch or an update has: the end of an error's message.
#ifndef VICINAL_ENGINE_MODEL_EXPRESSIONS_EXPRESSION_HINTS_H_
#define VICINAL_ENGINE_MODEL_EXPRESSIONS_EXPRESSION_HINTS_H_

#include <string>
#include <string_view>

#include "engine/model/expressions/parse_expression.h"

namespace vicinal::internal {

// For an operator that is not known, of a text from there on; empty: nothing is known of it.
std::string HintForOperator(std::string_view text);
// For a call of a function that is not known, such as torch.relu(a) and a.relu(). Empty: nothing is known of it.
std::string HintForFunction(std::string_view name);
// For a variable that is of the other expression of the layer. Empty: `name` is no variable.
std::string HintForVariable(std::string_view name, const ExpressionScope& scope);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_EXPRESSIONS_EXPRESSION_HINTS_H_
