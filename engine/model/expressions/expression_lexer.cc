// SPDX-License-Identifier: Apache-2.0
#include "engine/model/expressions/expression_lexer.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/base/printable.h"

namespace vicinal::internal {
namespace {

bool BeginsName(char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }

}  // namespace

Token ExpressionLexer::Next() {
  while (at_ < text_.size()) {
    if (text_[at_] == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (absl::ascii_isspace(static_cast<unsigned char>(text_[at_]))) {
      ++at_;
    } else {
      break;
    }
  }
  const size_t begin = at_;
  if (begin == text_.size()) return {TokenKind::kEnd, {}, begin};
  const auto end_while = [&](auto&& belongs) {
    while (at_ < text_.size() && belongs(text_[at_])) ++at_;
  };
  TokenKind kind = TokenKind::kSign;
  if (BeginsName(text_[begin])) {
    kind = TokenKind::kName;
    end_while([](char c) { return BeginsName(c) || IsDigit(c) || c == '.'; });
  } else if (IsDigit(text_[begin]) || (text_[begin] == '.' && begin + 1 < text_.size() && IsDigit(text_[begin + 1]))) {
    kind = TokenKind::kNumber;
    end_while([](char c) { return IsDigit(c) || c == '.'; });
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      ++at_;
      if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
      end_while(IsDigit);
    }
  } else {
    at_ += CharacterBytes(text_.substr(at_));
  }
  return {kind, text_.substr(begin, at_ - begin), begin};
}

std::string ExpressionLexer::Place(size_t at) const {
  const std::string_view before = text_.substr(0, at);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t last = before.rfind('\n');
  size_t column = 1;
  for (size_t i = last == std::string_view::npos ? 0 : last + 1; i < at; i += CharacterBytes(before.substr(i)))
    ++column;
  return absl::StrCat("line ", line, ", column ", column);
}

}  // namespace vicinal::internal
