// SPDX-License-Identifier: Apache-2.0
// The borders of an adjacency's rows in host memory. Layouts that depend on lengths of rows alone need no more: copying
// the edges as well would take longer than making them.
#ifndef VICINAL_ENGINE_CUDA_RUNTIME_ROW_BORDERS_H_
#define VICINAL_ENGINE_CUDA_RUNTIME_ROW_BORDERS_H_

#include <cstdint>
#include <vector>

#include "engine/base/status.h"
#include "engine/device/views.h"
#include "engine/kernels/adjacency_layout.h"

namespace vicinal::cuda {

class RowBorders {
 public:
  static StatusOr<RowBorders> Of(const LayoutSource& source) {
    RowBorders borders;
    borders.view_ = source.adjacency();
    borders.row_ptr_.resize(static_cast<size_t>(borders.view_.rows) + 1);
    VICINAL_RETURN_IF_ERROR(source.device().CopyToHost(borders.row_ptr_.data(), borders.view_.row_ptr,
                                                       borders.row_ptr_.size() * sizeof(int64_t)));
    return borders;
  }
  // Without columns and values. Valid as long as this object stays where it is.
  CsrView view() const { return {view_.rows, view_.cols, view_.nnz, row_ptr_.data(), nullptr, nullptr}; }

 private:
  CsrView view_;
  std::vector<int64_t> row_ptr_;
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_RUNTIME_ROW_BORDERS_H_
