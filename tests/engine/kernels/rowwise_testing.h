// SPDX-License-Identifier: Apache-2.0
// What tests of row-wise kernels share.
#ifndef VICINAL_TESTS_ENGINE_KERNELS_ROWWISE_TESTING_H_
#define VICINAL_TESTS_ENGINE_KERNELS_ROWWISE_TESTING_H_

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/engine/kernels/zoo.h"

namespace vicinal::testing {

// f of each of the machine's, its name in the trace.
inline void ForEachKernel(const std::function<void(const RegisteredKernel<RowwiseKernel>&)>& f) {
  for (const auto& kernel : TheMachine().registry.rowwise.kernels()) {
    SCOPED_TRACE(std::string(kernel->kernel().name()));
    f(*kernel);
  }
}

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_KERNELS_ROWWISE_TESTING_H_
