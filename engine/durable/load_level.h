// SPDX-License-Identifier: Apache-2.0
#ifndef VICINAL_ENGINE_DURABLE_LOAD_LEVEL_H_
#define VICINAL_ENGINE_DURABLE_LOAD_LEVEL_H_

#include "engine/base/log.h"

namespace vicinal::durable {

// The level of lines about a graph that comes back. At the start it has one such line; what requests bring back, in
// place of others that are evicted, may be as many graphs as there are requests, and metrics count them.
inline LogLevel LoadLevel(bool evict) { return evict ? LogLevel::kDebug : LogLevel::kInfo; }

}  // namespace vicinal::durable

#endif  // VICINAL_ENGINE_DURABLE_LOAD_LEVEL_H_
