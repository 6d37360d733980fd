// SPDX-License-Identifier: Apache-2.0
#include "engine/profile/host_caches.h"

#include <unistd.h>

namespace vicinal {

CacheSizes HostCaches() {
  CacheSizes caches;
  // glibc asks the processor; other C libraries, and some virtual machines, answer 0 or -1.
#if defined(_SC_LEVEL2_CACHE_SIZE) && defined(_SC_LEVEL3_CACHE_SIZE)
  const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE), llc = sysconf(_SC_LEVEL3_CACHE_SIZE);
  if (l2 > 0) caches.l2_bytes = l2;
  if (llc > 0) caches.llc_bytes = llc;
#endif
  return caches;
}

}  // namespace vicinal
