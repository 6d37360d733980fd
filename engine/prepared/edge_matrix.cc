// SPDX-License-Identifier: Apache-2.0
#include "engine/prepared/edge_matrix.h"

#include <utility>

#include "engine/base/check.h"
#include "engine/graph/edge_features.h"

namespace vicinal {
namespace {

constexpr auto kFloatBytes = static_cast<int64_t>(sizeof(float));

}  // namespace

int64_t EdgeMatrix::BytesOn(int64_t nodes, int64_t edges, int64_t cols, DeviceKind device) {
  if (edges == 0) return 0;
  return ((device == DeviceKind::kCpu ? 1 : 2) * edges + nodes) * cols * kFloatBytes;
}

StatusOr<std::shared_ptr<const EdgeMatrix>> EdgeMatrix::Make(const Csr& csr, HostValues values, int64_t cols,
                                                             Device& device) {
  VICINAL_CHECK(cols > 0 && static_cast<int64_t>(values->size()) == csr.nnz() * cols);
  auto made = std::make_shared<EdgeMatrix>();
  made->nodes_ = csr.num_rows;
  made->rows_ = csr.nnz();
  made->cols_ = cols;
  made->host_ = std::move(values);
  if (made->rows_ == 0) return std::shared_ptr<const EdgeMatrix>(std::move(made));
  if (device.kind() != DeviceKind::kCpu) {
    VICINAL_ASSIGN_OR_RETURN(made->sent_, DeviceVector::Upload(*made->host_, device));
  }
  VICINAL_ASSIGN_OR_RETURN(made->means_, DeviceVector::Upload(MeanEdgeFeatures(csr, *made->host_, cols), device));
  return std::shared_ptr<const EdgeMatrix>(std::move(made));
}

int64_t EdgeMatrix::size_bytes() const {
  return static_cast<int64_t>(host_->size()) * kFloatBytes + (sent_ != nullptr ? sent_->size_bytes() : 0) +
         means_bytes();
}

int64_t EdgeMatrix::device_bytes() const { return (sent_ != nullptr ? sent_->size_bytes() : 0) + means_bytes(); }

}  // namespace vicinal
