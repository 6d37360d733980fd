// SPDX-License-Identifier: Apache-2.0
// What to write in an expression instead of what Python, PyTorch or the layer's other expression has, and instead of
// misspelt names: the end of an error's message. All return an empty text if nothing is known.
#ifndef VICINAL_ENGINE_MODEL_EXPRESSIONS_EXPRESSION_HINTS_H_
#define VICINAL_ENGINE_MODEL_EXPRESSIONS_EXPRESSION_HINTS_H_

#include <string>
#include <string_view>

#include "engine/model/expressions/parse_expression.h"

namespace vicinal::internal {

// For an operator that is not known, of a text from there on.
std::string HintForOperator(std::string_view text);
// For what stands between brackets, of a text from there on: x[:, 0:8], x[-1:], x[3].
std::string HintForColumns(std::string_view text);

class ExpressionHints {
 public:
  // Both must outlive this.
  ExpressionHints(const LayerContext& context, const ExpressionScope& scope) : context_(context), scope_(scope) {}

  // For a call of a function that is not known: torch.relu(a), a.relu(), self.lin(a), pow(a, 2).
  std::string ForFunction(std::string_view name) const;
  // For a name that is no value and no tensor; `after` is the text behind it.
  std::string ForName(std::string_view name, std::string_view after) const;

 private:
  std::string ForModule(std::string_view name) const;
  std::string ForVariable(std::string_view name) const;
  std::string Nearest(std::string_view name) const;
  bool HasTensor(const std::string& name) const;

  const LayerContext& context_;
  const ExpressionScope& scope_;
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_EXPRESSIONS_EXPRESSION_HINTS_H_
