// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/cli/node_names.h"

#include "absl/strings/str_cat.h"
#include "client/cpp/cli/ids_file.h"
#include "client/cpp/errors.h"
#include "client/cpp/formats/files.h"
#include "client/cpp/formats/not_finite.h"
#include "client/cpp/formats/text.h"

namespace vicinal::client::cli {

absl::Status WithNodeName(const Context& context, const std::string& graph, const absl::Status& status) {
  const ErrorDetails details = DetailsOf(status);
  const auto named = details.metadata.find("node");
  int64_t node = 0;
  if (named == details.metadata.end() || !ParseInt(named->second, &node)) return status;
  const std::optional<IdMap> ids = KnownIds(context, graph);
  if (!ids || node < 0 || node >= ids->size()) return status;
  return AddToMessage(status, absl::StrCat("; node ", node, " is '", ids->IdOf(node), "'"));
}

absl::Status CheckFinite(const Features& features, const std::string& path, const std::optional<IdMap>& ids) {
  const std::optional<NotFinite> found = FindNotFinite(features);
  if (!found) return absl::OkStatus();
  const bool known = ids && found->row < ids->size();
  return FileError(
      path, 0,
      absl::StrCat("the features of node ", found->row, known ? absl::StrCat(" ('", ids->IdOf(found->row), "')") : "",
                   " contain ", found->value, " in column ", found->column,
                   "; every value must be finite as a float32"));
}

}  // namespace vicinal::client::cli
