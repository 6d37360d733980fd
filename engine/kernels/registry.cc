// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/registry.h"

#include <cstdio>
#include <cstdlib>

namespace vicinal::internal {

void RegistrationFailed(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::abort();
}

}  // namespace vicinal::internal
