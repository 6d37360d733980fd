// SPDX-License-Identifier: Apache-2.0
// Values of programs over edges (engine/base/edge_program.h), for tests that write programs by hand.
#ifndef VICINAL_TESTS_ENGINE_KERNELS_EDGE_VALUES_H_
#define VICINAL_TESTS_ENGINE_KERNELS_EDGE_VALUES_H_

#include <cstdint>

#include "engine/base/edge_program.h"

namespace vicinal::testing {

inline EdgeValue ValueOf(EdgeOp op, int64_t width, int32_t a = -1, int32_t b = -1, int32_t index = -1,
                         int64_t first = 0) {
  EdgeValue value;
  value.op = op;
  value.width = width;
  value.a = a;
  value.b = b;
  value.index = index;
  value.first = first;
  return value;
}

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_KERNELS_EDGE_VALUES_H_
