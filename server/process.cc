// SPDX-License-Identifier: Apache-2.0
#include "server/process.h"

#include <malloc.h>
#include <sys/resource.h>

namespace vicinal::server {

int64_t AllowManyFiles() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  if (limit.rlim_cur < limit.rlim_max) {
    const rlimit most = {limit.rlim_max, limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &most) == 0) limit = most;
  }
  return static_cast<int64_t>(limit.rlim_cur);
}

void GiveLargeBlocksBack() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}

}  // namespace vicinal::server
