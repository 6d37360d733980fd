// SPDX-License-Identifier: Apache-2.0
// Views into memory of a device: they look, they never own. Trivially copyable, so that kernels take them by value.
#ifndef VICINAL_ENGINE_DEVICE_VIEWS_H_
#define VICINAL_ENGINE_DEVICE_VIEWS_H_

#include <cstdint>

namespace vicinal {

// float32 [rows, cols], row r begins at data + r * stride; stride >= cols, in elements.
template <class T>
struct BasicMatrixView {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  T* row(int64_t r) const { return data + r * stride; }
  bool empty() const { return data == nullptr; }
  // Columns [begin, begin + count) of the same rows.
  BasicMatrixView columns(int64_t begin, int64_t count) const { return {data + begin, rows, count, stride}; }
  // As a pointer converts to one to const.
  operator BasicMatrixView<const T>() const {  // NOLINT(google-explicit-constructor)
    return {data, rows, cols, stride};
  }
};
using MatrixView = BasicMatrixView<float>;
using ConstMatrixView = BasicMatrixView<const float>;
// The same with 16-bit elements: bfloat16 or IEEE float16. The view does not record which; its owner does.
using MatrixView16 = BasicMatrixView<uint16_t>;
using ConstMatrixView16 = BasicMatrixView<const uint16_t>;

// Sparse [rows, cols] in compressed row form. row_ptr [rows + 1], col [nnz] ascending within a row (but in receptive
// fields), value [nnz] or null (all ones). An adjacency has rows = targets and cols = sources, so a row holds a
// target's in-edges; it may hold an edge several times.
struct CsrView {
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t nnz = 0;
  const int64_t* row_ptr = nullptr;
  const int32_t* col = nullptr;
  const float* value = nullptr;
};

// Where rows of a sparse matrix are put: row r takes places [row_ptr[r], row_ptr[r + 1]), as many as it has entries.
struct SparseRowsOut {
  int64_t rows = 0;
  int64_t nnz = 0;
  const int64_t* row_ptr = nullptr;  // [rows + 1], from 0
  int32_t* col = nullptr;            // [nnz]; null: columns are not wanted
  float* value = nullptr;            // [nnz]; null: values are not wanted
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_DEVICE_VIEWS_H_
