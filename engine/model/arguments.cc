// SPDX-License-Identifier: Apache-2.0
#include "engine/model/arguments.h"

#include <cmath>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/nearest_name.h"
#include "engine/base/printable.h"

namespace vicinal::internal {
namespace {

using Json = nlohmann::json;

// A value for a message, short.
std::string Show(const Json& value) { return Printable(value.dump(-1, ' ', true, Json::error_handler_t::replace)); }

std::string ShowNumber(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15 ? std::to_string(static_cast<int64_t>(value))
                                                              : Json(value).dump();
}

std::string Join(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

Status CheckRange(const Json& value, const ArgumentSpec& spec, const std::string& field) {
  const double number = value.get<double>();
  if (number >= spec.minimum && number <= spec.maximum) return OkStatus();
  return BadArchitecture(field, field + " is " + Show(value) + "; it must be within " + ShowNumber(spec.minimum) +
                                    " and " + ShowNumber(spec.maximum));
}

// Checks one value that was sent.
Status CheckValue(const Json& value, const ArgumentSpec& spec, const std::string& field, const std::string& type) {
  if (spec.kind == ArgumentKind::kIgnored || spec.kind == ArgumentKind::kNested) return OkStatus();
  if (spec.kind == ArgumentKind::kRefused) {
    for (const Json& harmless : spec.harmless) {
      if (value == harmless) return OkStatus();
    }
    return UnsupportedArgument(
        field, type + "'s argument '" + spec.name + "' is " + Show(value) + ", which is not supported: " + spec.why);
  }
  if (value.is_null() && !spec.required && spec.default_value.is_null()) return OkStatus();
  switch (spec.kind) {
    case ArgumentKind::kInt:
      if (!value.is_number_integer())
        return BadArchitecture(field, field + " is " + Show(value) + "; it must be an integer");
      return CheckRange(value, spec, field);
    case ArgumentKind::kNumber:
      if (!value.is_number()) return BadArchitecture(field, field + " is " + Show(value) + "; it must be a number");
      return CheckRange(value, spec, field);
    case ArgumentKind::kBool:
      if (!value.is_boolean())
        return BadArchitecture(field, field + " is " + Show(value) + "; it must be true or false");
      return OkStatus();
    default:
      break;
  }
  for (const std::string& choice : spec.choices) {
    if (value == Json(choice)) return OkStatus();
  }
  return UnsupportedArgument(
      field, type + "'s argument '" + spec.name + "' is " + Show(value) + "; supported: " + Join(spec.choices));
}

}  // namespace

Status BadArchitecture(std::string_view field, std::string_view message) {
  return InvalidArgument("BAD_ARCHITECTURE", field, message);
}

Status UnsupportedArgument(std::string_view field, std::string_view message) {
  return InvalidArgument("UNSUPPORTED_ARGUMENT", field, message);
}

ArgumentSpec IntArgument(std::string name, Json default_value, int64_t minimum, int64_t maximum) {
  ArgumentSpec spec;
  spec.name = std::move(name);
  spec.kind = ArgumentKind::kInt;
  spec.default_value = std::move(default_value);
  spec.minimum = static_cast<double>(minimum);
  spec.maximum = static_cast<double>(maximum);
  return spec;
}

ArgumentSpec RequiredIntArgument(std::string name, int64_t minimum, int64_t maximum) {
  ArgumentSpec spec = IntArgument(std::move(name), nullptr, minimum, maximum);
  spec.required = true;
  return spec;
}

ArgumentSpec NumberArgument(std::string name, double default_value, double minimum, double maximum) {
  ArgumentSpec spec;
  spec.name = std::move(name);
  spec.kind = ArgumentKind::kNumber;
  spec.default_value = default_value;
  spec.minimum = minimum;
  spec.maximum = maximum;
  return spec;
}

ArgumentSpec BoolArgument(std::string name, Json default_value) {
  ArgumentSpec spec;
  spec.name = std::move(name);
  spec.kind = ArgumentKind::kBool;
  spec.default_value = std::move(default_value);
  return spec;
}

ArgumentSpec ChoiceArgument(std::string name, Json default_value, std::vector<std::string> choices) {
  ArgumentSpec spec;
  spec.name = std::move(name);
  spec.kind = ArgumentKind::kChoice;
  spec.default_value = std::move(default_value);
  spec.choices = std::move(choices);
  return spec;
}

ArgumentSpec IgnoredArgument(std::string name) {
  ArgumentSpec spec;
  spec.name = std::move(name);
  return spec;
}

ArgumentSpec RefusedArgument(std::string name, std::vector<Json> harmless, std::string why) {
  ArgumentSpec spec;
  spec.name = std::move(name);
  spec.kind = ArgumentKind::kRefused;
  spec.harmless = std::move(harmless);
  spec.why = std::move(why);
  return spec;
}

ArgumentSpec NestedArgument(std::string name) {
  ArgumentSpec spec;
  spec.name = std::move(name);
  spec.kind = ArgumentKind::kNested;
  spec.required = true;
  return spec;
}

ArgumentSpec AnyArgument(std::string name, Json default_value) {
  ArgumentSpec spec = IgnoredArgument(std::move(name));
  spec.default_value = std::move(default_value);
  return spec;
}

ArgumentSpec InChannelsArgument(std::string name) { return IntArgument(std::move(name), nullptr, -1, kMaxWidth); }

ArgumentSpec EpsArgument() { return NumberArgument("eps", 1e-5, 1e-12, 1.0); }

std::vector<ArgumentSpec> MessagePassingArguments(bool with_aggr) {
  std::vector<ArgumentSpec> specs = {
      RefusedArgument("flow", {"source_to_target"},
                      "messages flow from source to target; swap the rows of edge_index instead"),
      RefusedArgument("node_dim", {-2, 0}, "values are matrices with one row per node"),
      RefusedArgument("aggr_kwargs", {nullptr, Json::object()}, "no supported aggregation takes arguments"),
      IgnoredArgument("decomposed_layers")};
  if (with_aggr)
    specs.push_back(RefusedArgument("aggr", {"add", "sum"}, "this layer sums its messages; only 'add' is supported"));
  return specs;
}

ArgumentSpec AggrArgument(const char* default_value) {
  return ChoiceArgument("aggr", default_value, {"mean", "max", "min", "sum", "add"});
}

void AddArguments(std::vector<ArgumentSpec> more, std::vector<ArgumentSpec>* specs) {
  for (ArgumentSpec& spec : more) specs->push_back(std::move(spec));
}

StatusOr<Arguments> Arguments::Read(const Json& json, const std::vector<ArgumentSpec>& specs, const std::string& field,
                                    const std::string& type) {
  if (!json.is_object()) return BadArchitecture(field, field + " must be an object of arguments");
  Arguments result;
  result.field_ = field;
  result.values_ = Json::object();
  for (const auto& item : json.items()) {
    bool known = false;
    for (const ArgumentSpec& spec : specs) known = known || spec.name == item.key();
    if (!known) {
      std::vector<std::string> names;
      for (const ArgumentSpec& spec : specs) {
        if (spec.kind != ArgumentKind::kRefused) names.push_back(spec.name);
      }
      const std::string name = Printable(item.key()), nearest = NearestName(item.key(), names);
      return BadArchitecture(field + "." + name, type + " has no argument '" + name + "'; " +
                                                     (nearest.empty() ? "it" : "did you mean '" + nearest + "'? It") +
                                                     " takes: " + (names.empty() ? "none" : Join(names)));
    }
  }
  for (const ArgumentSpec& spec : specs) {
    const auto sent = json.find(spec.name);
    if (sent == json.end()) {
      if (spec.required)
        return BadArchitecture(field + "." + spec.name,
                               type + " needs the argument '" + spec.name + "' (" + field + "." + spec.name + ")");
      if (!spec.default_value.is_null()) result.values_[spec.name] = spec.default_value;
      continue;
    }
    VICINAL_RETURN_IF_ERROR(CheckValue(*sent, spec, field + "." + spec.name, type));
    result.values_[spec.name] = *sent;
  }
  return result;
}

const Json& Arguments::Raw(std::string_view name) const {
  static const Json* const kNull = new Json();
  const auto it = values_.find(std::string(name));
  return it == values_.end() ? *kNull : *it;
}

int64_t Arguments::Int(std::string_view name) const {
  VICINAL_CHECK(Raw(name).is_number_integer());
  return Raw(name).get<int64_t>();
}

double Arguments::Number(std::string_view name) const {
  VICINAL_CHECK(Raw(name).is_number());
  return Raw(name).get<double>();
}

bool Arguments::Bool(std::string_view name) const {
  VICINAL_CHECK(Raw(name).is_boolean());
  return Raw(name).get<bool>();
}

std::string Arguments::Choice(std::string_view name) const {
  VICINAL_CHECK(Raw(name).is_string());
  return Raw(name).get<std::string>();
}

Reduce Arguments::Aggr() const {
  const std::string aggr = Choice("aggr");
  if (aggr == "mean") return Reduce::kMean;
  if (aggr == "max") return Reduce::kMax;
  return aggr == "min" ? Reduce::kMin : Reduce::kSum;
}

bool Arguments::IsNull(std::string_view name) const { return Raw(name).is_null(); }

}  // namespace vicinal::internal
