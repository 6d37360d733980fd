// SPDX-License-Identifier: Apache-2.0
// Where memory that stays is counted.
#ifndef VICINAL_ENGINE_MEMORY_MEMORY_ACCOUNT_H_
#define VICINAL_ENGINE_MEMORY_MEMORY_ACCOUNT_H_

#include <cstdint>

#include "engine/base/status.h"

namespace vicinal {

// Implementations are thread-safe.
class MemoryAccount {
 public:
  virtual ~MemoryAccount() = default;
  // Counts `bytes`, or refuses, with an error for the client.
  virtual Status Reserve(int64_t bytes) = 0;
  virtual void Release(int64_t bytes) = 0;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_MEMORY_MEMORY_ACCOUNT_H_
