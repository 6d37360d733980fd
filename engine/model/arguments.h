// SPDX-License-Identifier: Apache-2.0
// The arguments of a layer type as a table: name, kind, default, range; and which of PyTorch Geometric's are
// unsupported, and why. One reader checks every layer against its table, so no unknown argument is ignored.
#ifndef VICINAL_ENGINE_MODEL_ARGUMENTS_H_
#define VICINAL_ENGINE_MODEL_ARGUMENTS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/vocabulary.h"

namespace vicinal::internal {

// Maximum width of a model's matrices, so that sizes cannot overflow.
inline constexpr int64_t kMaxWidth = int64_t{1} << 24;

// Maximum number of propagations of a layer.
inline constexpr int64_t kMaxHops = 1000;

enum class ArgumentKind {
  kInt,
  kNumber,
  kBool,
  kChoice,
  kNested,   // a list of layers; the layer reads it itself
  kIgnored,  // of PyTorch Geometric, without effect on inference: accepts any value
  kRefused,  // of PyTorch Geometric, not supported: accepts only values without effect
};

struct ArgumentSpec {
  std::string name;
  ArgumentKind kind = ArgumentKind::kIgnored;
  bool required = false;
  nlohmann::json default_value;          // null: optional, and null is accepted
  double minimum = 0.0, maximum = 0.0;   // kInt, kNumber
  std::vector<std::string> choices;      // kChoice
  std::vector<nlohmann::json> harmless;  // kRefused
  std::string why;                       // kRefused: the reason, a clause for the message
};

ArgumentSpec IntArgument(std::string name, nlohmann::json default_value, int64_t minimum, int64_t maximum);
ArgumentSpec RequiredIntArgument(std::string name, int64_t minimum, int64_t maximum);
ArgumentSpec NumberArgument(std::string name, double default_value, double minimum, double maximum);
ArgumentSpec BoolArgument(std::string name, nlohmann::json default_value);
ArgumentSpec ChoiceArgument(std::string name, nlohmann::json default_value, std::vector<std::string> choices);
ArgumentSpec IgnoredArgument(std::string name);
ArgumentSpec RefusedArgument(std::string name, std::vector<nlohmann::json> harmless, std::string why);
ArgumentSpec NestedArgument(std::string name);                             // required
ArgumentSpec AnyArgument(std::string name, nlohmann::json default_value);  // of any value; the layer reads it itself
// `in_channels` and similar: may be omitted, null or -1 (like PyTorch Geometric's lazy layers); otherwise it must be
// the input's width.
ArgumentSpec InChannelsArgument(std::string name);
// `eps` of a norm, 1e-5 by default. More than 0: a variance of 0 must not divide by 0.
ArgumentSpec EpsArgument();
// Arguments that every MessagePassing layer inherits. `with_aggr`: also `aggr`, for layers that can only sum.
std::vector<ArgumentSpec> MessagePassingArguments(bool with_aggr);
// `aggr` for layers that can do more: "sum" or "add", "mean", "max", "min".
ArgumentSpec AggrArgument(const char* default_value);

// Appends `more` to `specs`.
void AddArguments(std::vector<ArgumentSpec> more, std::vector<ArgumentSpec>* specs);

// Checked arguments with defaults.
class Arguments {
 public:
  // `field` is the path of `json` in the document ("layers[2].args"), `type` the layer's type. INVALID_ARGUMENT:
  // BAD_ARCHITECTURE or UNSUPPORTED_ARGUMENT, with the argument's path.
  static StatusOr<Arguments> Read(const nlohmann::json& json, const std::vector<ArgumentSpec>& specs,
                                  const std::string& field, const std::string& type);

  int64_t Int(std::string_view name) const;
  double Number(std::string_view name) const;
  bool Bool(std::string_view name) const;
  std::string Choice(std::string_view name) const;
  Reduce Aggr() const;  // of AggrArgument
  bool IsNull(std::string_view name) const;
  const nlohmann::json& Raw(std::string_view name) const;

  const std::string& field() const { return field_; }
  // "layers[2].args.heads"
  std::string FieldOf(std::string_view name) const { return field_ + "." + std::string(name); }
  const nlohmann::json& json() const { return values_; }

 private:
  nlohmann::json values_;
  std::string field_;
};

Status BadArchitecture(std::string_view field, std::string_view message);
Status UnsupportedArgument(std::string_view field, std::string_view message);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_ARGUMENTS_H_
