// SPDX-License-Identifier: Apache-2.0
// Turns failed allocations into errors, at the engine's interface and at the server's boundaries. gRPC swallows
// exceptions of a reactor and then waits forever for its end, so each of these (reactors, deliveries, finishing
// uploads) runs its work through OrOutOfMemory.
#ifndef VICINAL_ENGINE_BASE_OUT_OF_MEMORY_H_
#define VICINAL_ENGINE_BASE_OUT_OF_MEMORY_H_

#include <chrono>
#include <new>

#include "engine/base/error.h"

namespace vicinal {

// Never throws: without memory for the message, only the code.
inline Status OutOfMemory() {
  try {
    return ResourceExhausted("OUT_OF_MEMORY", "this server has no memory left for the request; retry later",
                             std::chrono::seconds(1));
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "");
  }
}

// The result of `work()`, a Status or a StatusOr; RESOURCE_EXHAUSTED if it runs out of memory.
template <class Work>
auto OrOutOfMemory(Work&& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
}

}  // namespace vicinal

#endif  // VICINAL_ENGINE_BASE_OUT_OF_MEMORY_H_
