// SPDX-License-Identifier: Apache-2.0
// The check of `if_version`, the same for graphs, feature sets and models. Handlers make it before megabytes travel;
// the stores make it again when they publish, since a name may change in the meantime.
#ifndef VICINAL_SERVER_HANDLERS_VERSIONS_H_
#define VICINAL_SERVER_HANDLERS_VERSIONS_H_

#include <cstdint>
#include <string_view>

#include "engine/base/status.h"

namespace vicinal::server {

// ABORTED (reason VERSION_MISMATCH, metadata `version`) when `if_version` is not 0 and not `version`.
Status CheckVersion(std::string_view resource_type, std::string_view name, int64_t version, int64_t if_version);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_HANDLERS_VERSIONS_H_
