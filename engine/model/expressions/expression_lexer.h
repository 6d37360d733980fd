// SPDX-License-Identifier: Apache-2.0
// Tokens of an expression's text, with their places. Spaces, line ends and comments (from # to the line's end) separate
// tokens.
#ifndef VICINAL_ENGINE_MODEL_EXPRESSIONS_EXPRESSION_LEXER_H_
#define VICINAL_ENGINE_MODEL_EXPRESSIONS_EXPRESSION_LEXER_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace vicinal::internal {

enum class TokenKind { kName, kNumber, kSign, kEnd };
struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;  // of the whole text; kEnd: empty
  size_t at = 0;          // byte where it begins
};

class ExpressionLexer {
 public:
  explicit ExpressionLexer(std::string_view text) : text_(text) {}

  // The next token. A sign is any single byte, known or not. Names are letters, digits, '_' and '.', and begin with a
  // letter or '_'; numbers are what C writes without a sign.
  Token Next();
  // "line 2, column 7", both from 1, of a byte of the text.
  std::string Place(size_t at) const;

 private:
  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_EXPRESSIONS_EXPRESSION_LEXER_H_
