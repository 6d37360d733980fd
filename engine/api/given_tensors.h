// SPDX-License-Identifier: Apache-2.0
// Uploaded tensors that become features without a copy beside them.
#ifndef VICINAL_ENGINE_API_GIVEN_TENSORS_H_
#define VICINAL_ENGINE_API_GIVEN_TENSORS_H_

#include "engine/memory/memory_budget.h"

namespace vicinal {

// Tensors that a caller gives away, so that they need not be in memory beside what is made of them. They must lie in
// private memory that can be written. Nulls: the caller keeps them.
struct GivenTensors {
  Reservation* memory = nullptr;  // of the tensors' bytes
  bool* taken = nullptr;          // set when they are: their bytes and `memory` are then gone, whatever the outcome
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_API_GIVEN_TENSORS_H_
