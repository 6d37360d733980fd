// SPDX-License-Identifier: Apache-2.0
#include "engine/prepared/device_arrays.h"

#include <algorithm>
#include <utility>

#include "engine/prepared/upload_vector.h"

namespace vicinal {

StatusOr<std::shared_ptr<const DeviceCsr>> DeviceCsr::Upload(const Csr& csr, Device& device) {
  auto result = std::make_shared<DeviceCsr>();
  VICINAL_ASSIGN_OR_RETURN(result->row_ptr_, UploadVector(csr.row_ptr, device));
  VICINAL_ASSIGN_OR_RETURN(result->col_, UploadVector(csr.col, device));
  VICINAL_ASSIGN_OR_RETURN(result->value_, UploadVector(csr.value, device));
  result->view_ = {csr.num_rows,
                   csr.num_cols,
                   csr.nnz(),
                   result->row_ptr_.as<EdgeId>(),
                   result->col_.as<NodeId>(),
                   csr.value.empty() ? nullptr : result->value_.as<float>()};
  result->size_bytes_ = csr.size_bytes();
  return result;
}

StatusOr<std::shared_ptr<const DeviceCsr>> DeviceCsr::Concatenate(const std::vector<CsrView>& parts,
                                                                  const std::vector<EdgeId>& row_ptr, Device& device) {
  auto result = std::make_shared<DeviceCsr>();
  CsrView& all = result->view_;
  all.rows = static_cast<int64_t>(row_ptr.size()) - 1;
  all.cols = parts.front().cols;
  all.nnz = row_ptr.back();
  const bool weighted =
      std::any_of(parts.begin(), parts.end(), [](const CsrView& part) { return part.value != nullptr; });
  const auto entries = static_cast<size_t>(all.nnz);
  VICINAL_ASSIGN_OR_RETURN(result->row_ptr_, UploadVector(row_ptr, device));
  VICINAL_ASSIGN_OR_RETURN(result->col_, device.Allocate(entries * sizeof(NodeId)));
  VICINAL_ASSIGN_OR_RETURN(result->value_, device.Allocate(weighted ? entries * sizeof(float) : 0));
  int64_t before = 0;
  for (const CsrView& part : parts) {
    const auto count = static_cast<size_t>(part.nnz);
    if (count == 0) continue;
    VICINAL_RETURN_IF_ERROR(device.CopyOnDevice(result->col_.as<NodeId>() + before, part.col, count * sizeof(NodeId)));
    if (part.value != nullptr) {
      VICINAL_RETURN_IF_ERROR(
          device.CopyOnDevice(result->value_.as<float>() + before, part.value, count * sizeof(float)));
    } else if (weighted) {
      const std::vector<float> ones(count, 1.0f);
      VICINAL_RETURN_IF_ERROR(
          device.CopyFromHost(result->value_.as<float>() + before, ones.data(), count * sizeof(float)));
    }
    before += part.nnz;
  }
  all.row_ptr = result->row_ptr_.as<EdgeId>();
  all.col = result->col_.as<NodeId>();
  all.value = weighted ? result->value_.as<float>() : nullptr;
  result->size_bytes_ = static_cast<int64_t>(result->row_ptr_.bytes() + result->col_.bytes() + result->value_.bytes());
  return std::shared_ptr<const DeviceCsr>(std::move(result));
}

StatusOr<std::shared_ptr<const DeviceVector>> DeviceVector::Upload(const std::vector<float>& values, Device& device) {
  auto result = std::make_shared<DeviceVector>();
  VICINAL_ASSIGN_OR_RETURN(result->buffer_, UploadVector(values, device));
  return std::shared_ptr<const DeviceVector>(std::move(result));
}

}  // namespace vicinal
