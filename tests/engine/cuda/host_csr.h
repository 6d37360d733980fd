// SPDX-License-Identifier: Apache-2.0
// An adjacency in host memory, as tests of layouts make it row by row.
#ifndef VICINAL_TESTS_ENGINE_CUDA_HOST_CSR_H_
#define VICINAL_TESTS_ENGINE_CUDA_HOST_CSR_H_

#include <cstdint>
#include <vector>

#include "engine/device/views.h"

namespace vicinal::cuda {

struct HostCsr {
  int64_t cols = 0;
  std::vector<int64_t> row_ptr = {0};
  std::vector<int32_t> col;
  std::vector<float> value;  // or none

  int64_t rows() const { return static_cast<int64_t>(row_ptr.size()) - 1; }
  CsrView view() const {
    return {rows(), cols, row_ptr.back(), row_ptr.data(), col.data(), value.empty() ? nullptr : value.data()};
  }
};

}  // namespace vicinal::cuda

#endif  // VICINAL_TESTS_ENGINE_CUDA_HOST_CSR_H_
