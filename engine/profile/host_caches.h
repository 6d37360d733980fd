// SPDX-License-Identifier: Apache-2.0
// Cache sizes of the machine this runs on.
#ifndef VICINAL_ENGINE_PROFILE_HOST_CACHES_H_
#define VICINAL_ENGINE_PROFILE_HOST_CACHES_H_

#include "engine/profile/graph_profile.h"

namespace vicinal {

// A core's second cache and the last one; CacheSizes's defaults where the system does not tell.
CacheSizes HostCaches();

}  // namespace vicinal

#endif  // VICINAL_ENGINE_PROFILE_HOST_CACHES_H_
