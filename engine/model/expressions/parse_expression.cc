// SPDX-License-Identifier: Apache-2.0
// A recursive-descent parser. Each rule returns the typed value of what it read, so that a message speaks of the first
// place that is wrong, whether in form or in type.
#include "engine/model/expressions/parse_expression.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/printable.h"
#include "engine/base/tensor.h"
#include "engine/model/expressions/expression_functions.h"
#include "engine/model/expressions/expression_hints.h"
#include "engine/model/expressions/expression_lexer.h"

namespace vicinal::internal {
namespace {

class Parser {
 public:
  Parser(std::string_view text, const std::string& field, const LayerContext& context, Expressions* expressions,
         ExpressionScope* scope)
      : text_(text),
        lexer_(text),
        field_(field),
        context_(context),
        made_(*expressions),
        scope_(*scope),
        hints_(context, *scope) {
    Advance();
  }

  StatusOr<int32_t> Parse() {
    for (;;) {
      if (token_.kind == TokenKind::kName && IsDefinition()) {
        VICINAL_RETURN_IF_ERROR(ReadDefinition());
        continue;
      }
      if (token_.kind == TokenKind::kEnd && defined_)
        return Fail(token_.at,
                    "the text ends after its definitions; its last part is the expression that is the result");
      VICINAL_ASSIGN_OR_RETURN(const int32_t value, ReadSum());
      if (token_.kind == TokenKind::kEnd) return value;
      return Fail(token_.at, "found " + Shown() + ", but the expression is complete here; " + Operators());
    }
  }

 private:
  // --- tokens ---

  void Advance() { token_ = lexer_.Next(); }
  bool At(char sign) const { return token_.kind == TokenKind::kSign && token_.text[0] == sign; }
  bool Take(char sign) {
    if (!At(sign)) return false;
    Advance();
    return true;
  }
  Status Expect(char sign, std::string_view after) {
    if (Take(sign)) return OkStatus();
    return Fail(token_.at,
                absl::StrCat("expected '", std::string(1, sign), "' ", std::string(after), ", found ", Shown()));
  }
  // A sign may be any character.
  std::string Shown() const {
    if (token_.kind == TokenKind::kEnd) return "the end of the text";
    return token_.kind == TokenKind::kSign ? "'" + Escaped(token_.text) + "'" : Quoted(token_.text);
  }
  Status Fail(size_t at, const std::string& why) const {
    return BadArchitecture(field_,
                           absl::StrCat(field_, " of ", context_.Describe(), ", ", lexer_.Place(at), ": ", why));
  }
  // Parentheses, of functions too: a text may nest them no deeper than kMaxExpressionDepth. REQUIRES: At('(').
  Status Open() {
    if (++depth_ > kMaxExpressionDepth)
      return Fail(token_.at, absl::StrCat("more than ", kMaxExpressionDepth,
                                          " levels of parentheses; define parts of it before, as name = expression;"));
    Advance();
    return OkStatus();
  }
  Status Close(std::string_view after) {
    --depth_;
    return Expect(')', after);
  }
  // The text behind a token.
  std::string_view After(const Token& token) const { return text_.substr(token.at + token.text.size()); }
  // What could stand where an operator is expected.
  std::string Operators() const {
    const std::string hint = HintForOperator(text_.substr(std::min(token_.at, text_.size())));
    return hint.empty() ? "operators are + - * / and, after a definition name = expression, a semicolon" : hint;
  }
  // A value, or why its operands do not fit, with the place.
  StatusOr<int32_t> Placed(size_t at, StatusOr<int32_t> made) const {
    if (made.ok()) return made;
    return Fail(at, std::string(made.status().message()));
  }

  // --- definitions ---

  bool IsDefinition() const {
    ExpressionLexer ahead = lexer_;
    const Token next = ahead.Next();
    if (next.kind != TokenKind::kSign || next.text[0] != '=') return false;
    const Token after = ahead.Next();
    return after.text.empty() || after.text[0] != '=' || after.at != next.at + 1;  // "==" compares
  }

  Status ReadDefinition() {
    const Token name = token_;
    if (scope_.contains(name.text))
      return Fail(name.at, absl::StrCat("the name ", Quoted(name.text), " has a value already; choose another"));
    if (IsFunction(name.text))
      return Fail(name.at, absl::StrCat(Quoted(name.text), " is a function; choose another name"));
    Advance(), Advance();
    VICINAL_ASSIGN_OR_RETURN(const int32_t value, ReadSum());
    VICINAL_RETURN_IF_ERROR(Expect(';', "after a definition"));
    scope_.emplace(std::string(name.text), value);
    defined_ = true;
    return OkStatus();
  }

  // --- expressions ---

  StatusOr<int32_t> ReadSum() {
    VICINAL_ASSIGN_OR_RETURN(int32_t value, ReadProduct());
    while (At('+') || At('-')) {
      const size_t at = token_.at;
      const EdgeOp op = At('+') ? EdgeOp::kAdd : EdgeOp::kSubtract;
      Advance();
      VICINAL_ASSIGN_OR_RETURN(const int32_t right, ReadProduct());
      VICINAL_ASSIGN_OR_RETURN(value, Placed(at, made_.Binary(op, value, right)));
    }
    return value;
  }

  StatusOr<int32_t> ReadProduct() {
    VICINAL_ASSIGN_OR_RETURN(int32_t value, ReadSigned());
    while (At('*') || At('/')) {
      const size_t at = token_.at;
      const EdgeOp op = At('*') ? EdgeOp::kMultiply : EdgeOp::kDivide;
      if (const std::string hint = HintForOperator(text_.substr(at)); !hint.empty())
        return Fail(at, absl::StrCat(std::string(text_.substr(at, 2)), " is no operator; ", hint));
      Advance();
      VICINAL_ASSIGN_OR_RETURN(const int32_t right, ReadSigned());
      VICINAL_ASSIGN_OR_RETURN(value, Placed(at, made_.Binary(op, value, right)));
    }
    return value;
  }

  StatusOr<int32_t> ReadSigned() {
    bool negative = false;
    const size_t at = token_.at;
    while (Take('-')) negative = !negative;
    VICINAL_ASSIGN_OR_RETURN(const int32_t value, ReadPostfix());
    if (!negative) return value;
    VICINAL_ASSIGN_OR_RETURN(const int32_t minus, made_.Number(-1.0));
    return Placed(at, made_.Binary(EdgeOp::kMultiply, value, minus));
  }

  StatusOr<int32_t> ReadPostfix() {
    VICINAL_ASSIGN_OR_RETURN(int32_t value, ReadPrimary());
    while (At('[')) {
      const size_t at = token_.at;
      Advance();
      int64_t first = 0, end = made_[value].width;
      if (!At(':')) {
        VICINAL_ASSIGN_OR_RETURN(first, ReadColumn());
      }
      VICINAL_RETURN_IF_ERROR(ExpectInColumns(':', "between the first column and the end, as in x[0:3]"));
      if (!At(']')) {
        VICINAL_ASSIGN_OR_RETURN(end, ReadColumn());
      }
      VICINAL_RETURN_IF_ERROR(ExpectInColumns(']', "after columns"));
      VICINAL_ASSIGN_OR_RETURN(value, Placed(at, made_.Slice(value, first, end)));
    }
    return value;
  }

  std::string ColumnHint() const {
    const std::string hint = HintForColumns(text_.substr(std::min(token_.at, text_.size())));
    return hint.empty() ? "" : "; " + hint;
  }
  Status ExpectInColumns(char sign, std::string_view after) {
    if (Take(sign)) return OkStatus();
    return Fail(token_.at, absl::StrCat("expected '", std::string(1, sign), "' ", std::string(after), ", found ",
                                        Shown(), ColumnHint()));
  }

  StatusOr<int64_t> ReadColumn() {
    int64_t column = 0;
    if (token_.kind != TokenKind::kNumber ||
        !absl::SimpleAtoi(absl::string_view(token_.text.data(), token_.text.size()), &column))
      return Fail(token_.at, "columns are whole numbers, as in x[0:3]; found " + Shown() + ColumnHint());
    Advance();
    return column;
  }

  StatusOr<int32_t> ReadPrimary() {
    const Token token = token_;
    if (At('(')) {
      VICINAL_RETURN_IF_ERROR(Open());
      VICINAL_ASSIGN_OR_RETURN(const int32_t value, ReadSum());
      VICINAL_RETURN_IF_ERROR(Close("to close a parenthesis"));
      return value;
    }
    if (token.kind == TokenKind::kNumber) {
      double number = 0.0;
      if (!absl::SimpleAtod(absl::string_view(token.text.data(), token.text.size()), &number))
        return Fail(token.at, Quoted(token.text) + " is not a number");
      Advance();
      return Placed(token.at, made_.Number(number));
    }
    if (token.kind != TokenKind::kName) {
      const std::string hint = At('[') ? "arguments stand without brackets, as in cat(a, b)" : "";
      return Fail(token.at, "expected a value (a name, a number, a function or a parenthesis), found " + Shown() +
                                (hint.empty() ? "" : "; " + hint));
    }
    Advance();
    if (At('(')) return ReadCall(token);
    if (const auto known = scope_.find(token.text); known != scope_.end()) return known->second;
    return ReadTensor(token);
  }

  // --- tensors ---

  std::string TensorName(std::string_view name) const { return context_.declaration.prefix + std::string(name); }

  // The word that a name is a part of: with the characters beyond ASCII that end it, and what follows them. Cut off
  // where it is long.
  std::string_view WordOf(const Token& name) const {
    constexpr int kMostCharacters = 40;
    const auto belongs = [](char c) {
      const auto byte = static_cast<unsigned char>(c);
      return byte >= 0x80 || absl::ascii_isalnum(byte) || c == '_' || c == '.';
    };
    size_t end = name.at + name.text.size();
    for (int i = 0; i < kMostCharacters && end < text_.size() && belongs(text_[end]); ++i)
      end += CharacterBytes(text_.substr(end));
    return text_.substr(name.at, end - name.at);
  }

  // `or_module`: the tensor may also be the weight of a module of that name.
  Status Unknown(const Token& name, bool or_module = false) const {
    if (const std::string_view word = WordOf(name); word.size() > name.text.size())
      return Fail(name.at,
                  absl::StrCat("unknown name '", Escaped(word), "'; names are of ASCII letters, digits, _ and ."));
    if (IsDefinedLater(name))
      return Fail(name.at, Quoted(name.text) +
                               " is used before it is defined; definitions stand before their uses, so "
                               "none can depend on itself");
    if (IsFunction(name.text))
      return Fail(name.at, Quoted(name.text) + " is a function; write its arguments in parentheses");
    const bool of_edge = scope_.contains(std::string_view("x_j"));
    if (of_edge && name.text == "edge_attr")
      return Fail(name.at, "edge_attr has no width; set the argument edge_dim to the number of features of an edge");
    if (of_edge && name.text == "edge_weight")
      return Fail(name.at, "edges have no weights here; set edge_weight of the layer to true, or normalize");
    if (const std::string hint = hints_.ForName(name.text, After(name)); !hint.empty())
      return Fail(name.at, absl::StrCat("unknown name ", Quoted(name.text), "; ", hint));
    if (or_module) {
      return Fail(name.at, absl::StrCat("unknown name ", Quoted(name.text), "; the weights file has neither ",
                                        Quoted(TensorName(name.text)), " nor ",
                                        Quoted(TensorName(absl::StrCat(std::string(name.text), ".weight")))));
    }
    std::string names;
    for (const auto& [known, value] : scope_) absl::StrAppend(&names, names.empty() ? "" : ", ", Printable(known));
    return Fail(name.at, absl::StrCat("unknown name ", Quoted(name.text), "; it is neither one of ", names,
                                      " nor a tensor: the weights file has no ", Quoted(TensorName(name.text))));
  }

  bool IsDefinedLater(const Token& name) const {
    ExpressionLexer ahead(text_);
    Token before = ahead.Next();
    for (Token token = ahead.Next(); token.kind != TokenKind::kEnd; before = token, token = ahead.Next()) {
      if (token.kind == TokenKind::kSign && token.text[0] == '=' && before.text == name.text && before.at != name.at)
        return true;
    }
    return false;
  }

  // The tensor `name` as it is.
  StatusOr<WeightRef> Bind(const Token& at, const std::string& name) const {
    const std::vector<int64_t>* const shape = context_.tensors.ShapeOf(TensorName(name));
    if (shape == nullptr) return Unknown(at);
    return context_.Tensor(name, *shape);
  }

  // All numbers of a tensor side by side.
  StatusOr<int32_t> ReadTensor(const Token& name) {
    const std::vector<int64_t>* const shape = context_.tensors.ShapeOf(TensorName(name.text));
    if (shape == nullptr) return Unknown(name);
    int64_t count = 1;
    for (const int64_t extent : *shape) {
      if (extent > kMaxExpressionWidth || (count *= extent) > kMaxExpressionWidth || extent < 1)
        return Fail(name.at, absl::StrCat("tensor ", Quoted(TensorName(name.text)), " ", ShapeToString(*shape),
                                          " is used as a row; a row has 1 to ", kMaxExpressionWidth,
                                          " numbers (matrices are arguments of linear)"));
    }
    VICINAL_ASSIGN_OR_RETURN(const WeightRef weight, Bind(name, std::string(name.text)));
    return Placed(name.at, made_.Row(weight));
  }

  StatusOr<Token> ReadTensorName(std::string_view what) {
    const Token name = token_;
    if (name.kind != TokenKind::kName)
      return Fail(name.at, absl::StrCat("expected the name of ", std::string(what), ", found ", Shown()));
    if (WordOf(name).size() > name.text.size()) return Unknown(name);
    Advance();
    return name;
  }

  // --- functions ---

  StatusOr<int32_t> ReadCall(const Token& name) {
    if (!IsFunction(name.text)) {
      const std::string hint = hints_.ForFunction(name.text);
      return Fail(name.at, absl::StrCat("unknown function ", Quoted(name.text), "; ",
                                        hint.empty() ? "there are " + absl::StrJoin(FunctionList(), ", ") : hint));
    }
    VICINAL_RETURN_IF_ERROR(Open());
    if (At(')')) return Fail(token_.at, Quoted(name.text) + " needs arguments");
    VICINAL_ASSIGN_OR_RETURN(const int32_t first, ReadSum());
    if (name.text == "linear") return ReadLinear(name, first);
    if (name.text == "batch_norm") return ReadBatchNorm(name, first);
    std::vector<int32_t> arguments = {first};
    while (Take(',')) {
      VICINAL_ASSIGN_OR_RETURN(const int32_t next, ReadSum());
      arguments.push_back(next);
    }
    VICINAL_RETURN_IF_ERROR(Close("after the arguments of a function"));
    return Placed(name.at, CallFunction(name.text, arguments, &made_));
  }

  // linear(x, W), linear(x, W, b), or linear(x, module) for the tensors module.weight and, if there is one,
  // module.bias.
  StatusOr<int32_t> ReadLinear(const Token& name, int32_t x) {
    VICINAL_RETURN_IF_ERROR(Expect(',', "and the name of a weight, as in linear(x, lin)"));
    VICINAL_ASSIGN_OR_RETURN(const Token weight_name, ReadTensorName("a weight or a Linear"));
    WeightRef weight, bias;
    const std::string own(weight_name.text);
    const bool module = !context_.tensors.Has(TensorName(own)) && context_.tensors.Has(TensorName(own + ".weight"));
    if (!module && !context_.tensors.Has(TensorName(own))) return Unknown(weight_name, /*or_module=*/true);
    VICINAL_ASSIGN_OR_RETURN(weight, Bind(weight_name, module ? own + ".weight" : own));
    if (module && context_.tensors.Has(TensorName(own + ".bias"))) {
      VICINAL_ASSIGN_OR_RETURN(bias, Bind(weight_name, own + ".bias"));
    }
    if (module && At(',')) {
      return Fail(token_.at, absl::StrCat(Quoted(own), " is a module, and linear(x, ", own,
                                          ") adds its bias; remove the last argument"));
    }
    if (!module && Take(',')) {
      VICINAL_ASSIGN_OR_RETURN(const Token bias_name, ReadTensorName("a bias"));
      VICINAL_ASSIGN_OR_RETURN(bias, Bind(bias_name, std::string(bias_name.text)));
    }
    VICINAL_RETURN_IF_ERROR(Close("after the arguments of linear"));
    return Placed(name.at, made_.Linear(x, weight, bias));
  }

  // batch_norm(x, module) or with eps: running statistics, and weight and bias where there are.
  StatusOr<int32_t> ReadBatchNorm(const Token& name, int32_t x) {
    VICINAL_RETURN_IF_ERROR(Expect(',', "and the name of a BatchNorm"));
    VICINAL_ASSIGN_OR_RETURN(const Token module, ReadTensorName("a BatchNorm"));
    double eps = 1e-5;
    if (Take(',')) {
      if (token_.kind != TokenKind::kNumber ||
          !absl::SimpleAtod(absl::string_view(token_.text.data(), token_.text.size()), &eps) ||
          !(eps > 0.0 && eps < 1.0))
        return Fail(token_.at, "batch_norm's last argument is eps, a number between 0 and 1; found " + Shown());
      Advance();
    }
    VICINAL_RETURN_IF_ERROR(Close("after the arguments of batch_norm"));
    std::array<WeightRef, 4> tensors;
    constexpr const char* kNames[] = {".running_mean", ".running_var", ".weight", ".bias"};
    for (size_t t = 0; t < tensors.size(); ++t) {
      const std::string tensor = std::string(module.text) + kNames[t];
      if (t >= 2 && !context_.tensors.Has(TensorName(tensor))) continue;
      if (!context_.tensors.Has(TensorName(tensor))) return NoStatistics(module, tensor, made_[x].width);
      VICINAL_ASSIGN_OR_RETURN(tensors[t], context_.Tensor(tensor, {made_[x].width}));
    }
    return Placed(name.at, Normalized(x, tensors, eps));
  }

  // `tensor` of the BatchNorm `module` is missing.
  Status NoStatistics(const Token& module, const std::string& tensor, int64_t width) const {
    constexpr std::string_view kSuffix = ".running_mean";
    constexpr int kMost = 4;
    std::string others;
    int count = 0;
    for (const std::string& name : context_.tensors.NamesFrom(context_.declaration.prefix)) {
      if (name.size() <= kSuffix.size() || !name.ends_with(kSuffix)) continue;
      const std::string other = name.substr(0, name.size() - kSuffix.size());
      if (other == module.text || ++count > kMost) continue;
      absl::StrAppend(&others, others.empty() ? "; it has those of " : ", ", Quoted(other));
    }
    return Fail(module.at,
                absl::StrCat("batch_norm needs the tensor ", Quoted(TensorName(tensor)), " [", width,
                             "], which the weights file does not have", others, count > kMost ? ", ..." : ""));
  }

  StatusOr<int32_t> Normalized(int32_t x, const std::array<WeightRef, 4>& t, double eps) {
    const auto scale_of = [&](size_t c) {
      const double scale = 1.0 / std::sqrt(static_cast<double>(t[1]->values[c]) + eps);
      return t[2] != nullptr ? scale * t[2]->values[c] : scale;
    };
    for (const float variance : t[1]->values) {
      if (variance < 0.0f) return absl::InvalidArgumentError("'" + t[1]->name + "' has a negative variance");
    }
    const int64_t width = made_[x].width;
    const std::string key = absl::StrCat(" of batch_norm ", t[0]->name, " ", eps);
    const WeightRef scale = context_.tensors.Make("scale" + key, {width}, [&](std::vector<float>& values) {
      for (size_t c = 0; c < values.size(); ++c) values[c] = static_cast<float>(scale_of(c));
    });
    const WeightRef shift = context_.tensors.Make("shift" + key, {width}, [&](std::vector<float>& values) {
      for (size_t c = 0; c < values.size(); ++c)
        values[c] = static_cast<float>((t[3] != nullptr ? t[3]->values[c] : 0.0) - t[0]->values[c] * scale_of(c));
    });
    if (scale->values.empty() || shift->values.empty())
      return absl::InvalidArgumentError("batch_norm's scale exceeds what may be made of weights");
    VICINAL_ASSIGN_OR_RETURN(const int32_t factor, made_.Row(scale));
    VICINAL_ASSIGN_OR_RETURN(const int32_t term, made_.Row(shift));
    VICINAL_ASSIGN_OR_RETURN(const int32_t scaled, made_.Binary(EdgeOp::kMultiply, x, factor));
    return made_.Binary(EdgeOp::kAdd, scaled, term);
  }

  const std::string_view text_;
  ExpressionLexer lexer_;
  Token token_;
  const std::string& field_;
  const LayerContext& context_;
  Expressions& made_;
  ExpressionScope& scope_;
  const ExpressionHints hints_;
  int depth_ = 0;
  bool defined_ = false;
};

}  // namespace

StatusOr<int32_t> ParseExpression(std::string_view text, const std::string& field, const LayerContext& context,
                                  Expressions* expressions, ExpressionScope* scope) {
  if (static_cast<int64_t>(text.size()) > kMaxExpressionText) {
    return BadArchitecture(field, absl::StrCat(field, " of ", context.Describe(), " has ", text.size(),
                                               " bytes; an expression may have at most ", kMaxExpressionText));
  }
  return Parser(text, field, context, expressions, scope).Parse();
}

}  // namespace vicinal::internal
