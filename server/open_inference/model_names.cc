// SPDX-License-Identifier: Apache-2.0
#include "server/open_inference/model_names.h"

#include <charconv>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "proto/wire/names.h"

namespace vicinal::server {
namespace {

Status CheckKind(const OpenModelName& name, const ModelResource& model) {
  if (model.graph_level && !name.graph.empty()) {
    return FailedPrecondition(
        "GRAPH_MODEL", absl::StrCat("model '", name.model, "' classifies small graphs; its name is '", name.model,
                                    "', without a stored graph"));
  }
  if (!model.graph_level && name.graph.empty()) {
    return FailedPrecondition(
        "NODE_MODEL", absl::StrCat("model '", name.model, "' classifies nodes of a stored graph; its name is 'GRAPH/",
                                   name.model, "'"));
  }
  return OkStatus();
}

}  // namespace

StatusOr<OpenModelName> ParseOpenModelName(std::string_view name, std::string_view field) {
  const size_t slash = name.find('/');
  const std::string_view graph = slash == std::string_view::npos ? "" : name.substr(0, slash);
  const std::string_view model = slash == std::string_view::npos ? name : name.substr(slash + 1);
  if ((slash == std::string_view::npos || wire::IsValidName(graph)) && wire::IsValidName(model)) {
    return OpenModelName{std::string(graph), std::string(model)};
  }
  return InvalidArgument("BAD_NAME", field,
                         absl::StrCat("the model's name ", Quoted(name),
                                      " is invalid; a name is GRAPH/MODEL, or MODEL if it classifies small graphs, and "
                                      "both parts match ",
                                      wire::kNameGrammar));
}

std::string ToString(const OpenModelName& name) {
  return name.graph.empty() ? name.model : absl::StrCat(name.graph, "/", name.model);
}

StatusOr<int64_t> ParseOpenVersion(std::string_view version, std::string_view field) {
  if (version.empty()) return int64_t{0};
  int64_t number = 0;
  const char* const end = version.data() + version.size();
  const auto [stop, error] = std::from_chars(version.data(), end, number);
  if (error == std::errc() && stop == end && number > 0) return number;
  return InvalidArgument("BAD_VERSION", field,
                         absl::StrCat("the version ", Quoted(version),
                                      " is invalid; it must be a positive number, or empty for the latest"));
}

StatusOr<OpenModel> FindOpenModel(const Engine& engine, const OpenModelName& name, int64_t version) {
  OpenModel found{name, {}, {}};
  VICINAL_ASSIGN_OR_RETURN(found.model, engine.GetModel(name.model));
  VICINAL_RETURN_IF_ERROR(CheckKind(name, found.model));
  if (version != 0 && version != found.model.version) {
    ErrorDetail detail;
    detail.reason = "VERSION_NOT_FOUND";
    detail.resource_type = "model";
    detail.resource_name = name.model;
    return MakeError(
        StatusCode::kNotFound,
        absl::StrCat("model '", name.model, "' has no version ", version, "; version ", found.model.version, " serves"),
        detail);
  }
  if (!name.graph.empty()) {
    VICINAL_ASSIGN_OR_RETURN(found.graph, engine.GetGraph(name.graph));
  }
  return found;
}

}  // namespace vicinal::server
