// SPDX-License-Identifier: Apache-2.0
#ifndef VICINAL_TESTS_ENGINE_PREPARED_PREPARED_TESTING_H_
#define VICINAL_TESTS_ENGINE_PREPARED_PREPARED_TESTING_H_

#include <gtest/gtest.h>

#include <vector>

#include "engine/graph/csr.h"

namespace vicinal::testing {

// REQUIRES: `view` is in memory of the host.
inline void ExpectEqual(const CsrView& view, const Csr& csr) {
  ASSERT_EQ(view.rows, csr.num_rows);
  ASSERT_EQ(view.cols, csr.num_cols);
  ASSERT_EQ(view.nnz, csr.nnz());
  EXPECT_EQ(std::vector<EdgeId>(view.row_ptr, view.row_ptr + view.rows + 1), csr.row_ptr);
  EXPECT_EQ(std::vector<NodeId>(view.col, view.col + view.nnz), csr.col);
  ASSERT_EQ(view.value == nullptr, csr.value.empty());
  if (view.value != nullptr) {
    EXPECT_EQ(std::vector<float>(view.value, view.value + view.nnz), csr.value);
  }
}

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_PREPARED_PREPARED_TESTING_H_
