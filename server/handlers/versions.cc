// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/versions.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal::server {

Status CheckVersion(std::string_view resource_type, std::string_view name, int64_t version, int64_t if_version) {
  if (if_version == 0 || if_version == version) return OkStatus();
  ErrorDetail detail;
  detail.reason = "VERSION_MISMATCH";
  detail.field = "spec.if_version";
  detail.resource_type = std::string(resource_type);
  detail.resource_name = std::string(name);
  detail.metadata = {{"version", std::to_string(version)}};
  return MakeError(StatusCode::kAborted,
                   absl::StrCat(detail.resource_type, " '", detail.resource_name, "' has version ", version, ", not ",
                                if_version, "; read the current version and decide again"),
                   detail);
}

}  // namespace vicinal::server
