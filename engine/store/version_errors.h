// SPDX-License-Identifier: Apache-2.0
// Errors of names, versions and places, the same in all stores.
#ifndef VICINAL_ENGINE_STORE_VERSION_ERRORS_H_
#define VICINAL_ENGINE_STORE_VERSION_ERRORS_H_

#include <cstdint>
#include <string>

#include "engine/base/status.h"

namespace vicinal::internal {

// "graph 'g'".
std::string Quoted(const char* type, const std::string& name);
// ABORTED; metadata {version}: that which serves.
Status Aborted(const char* reason, const char* type, const std::string& name, const std::string& message,
               int64_t version);
// ABORTED (VERSION_MISMATCH): `wanted` is the if_version of a change, `version` what serves; 0: nothing does.
Status VersionDiffers(const char* type, const std::string& name, int64_t version, int64_t wanted);
// ABORTED (GRAPH_REPLACED): features were made for an older version of the graph than `version`, which serves.
Status GraphReplaced(const std::string& graph, int64_t version);
// NOT_FOUND (VERSION_NOT_FOUND): a request names version `wanted`, and `version` serves. Resources share one counter,
// so a number below `version` may or may not have been this one's.
Status VersionNotFound(const char* type, const std::string& name, int64_t version, int64_t wanted);
// RESOURCE_EXHAUSTED (TOO_MANY); `flag` sets the limit.
Status TooMany(const char* type, const char* flag, int64_t maximum);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_STORE_VERSION_ERRORS_H_
