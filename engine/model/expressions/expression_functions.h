// SPDX-License-Identifier: Apache-2.0
// Functions that expressions may call, but for those whose arguments are names of tensors (parse_expression.cc).
#ifndef VICINAL_ENGINE_MODEL_EXPRESSIONS_EXPRESSION_FUNCTIONS_H_
#define VICINAL_ENGINE_MODEL_EXPRESSIONS_EXPRESSION_FUNCTIONS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/model/expressions/expressions.h"

namespace vicinal::internal {

// Of all functions, also those that take names of tensors.
bool IsFunction(std::string_view name);
std::vector<std::string> FunctionList();

// The value of a call with one or more arguments. An error as those of Expressions. REQUIRES: IsFunction(name), and
// its arguments are values.
StatusOr<int32_t> CallFunction(std::string_view name, const std::vector<int32_t>& arguments, Expressions* made);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_EXPRESSIONS_EXPRESSION_FUNCTIONS_H_
