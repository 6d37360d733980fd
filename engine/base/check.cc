// SPDX-License-Identifier: Apache-2.0
#include "engine/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace vicinal::internal {

void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace vicinal::internal
