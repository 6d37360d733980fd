// SPDX-License-Identifier: Apache-2.0
// What is checked of rows of edges that come from a file.
#ifndef VICINAL_ENGINE_CUDA_RUNTIME_CHECK_ROWS_H_
#define VICINAL_ENGINE_CUDA_RUNTIME_CHECK_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace vicinal::cuda {

// The first thing wrong with `row_ptr` and `col` as rows of a matrix [rows, cols]; empty: nothing.
inline std::string RowsProblem(const std::vector<int64_t>& row_ptr, const std::vector<int32_t>& col, int64_t rows,
                               int64_t cols) {
  if (static_cast<int64_t>(row_ptr.size()) != rows + 1 || row_ptr.front() != 0 ||
      row_ptr.back() != static_cast<int64_t>(col.size())) {
    return "the remaining edges have other rows";
  }
  for (int64_t row = 0; row < rows; ++row) {
    if (row_ptr[row] > row_ptr[row + 1]) return "the rows of the remaining edges fall";
  }
  for (const int32_t source : col) {
    if (source < 0 || source >= cols) return "a remaining edge is outside of the columns";
  }
  return {};
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_RUNTIME_CHECK_ROWS_H_
