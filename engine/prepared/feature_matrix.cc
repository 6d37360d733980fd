// SPDX-License-Identifier: Apache-2.0
// Dense rows are padded on a GPU. Padding is made on the host, some rows at a time, so that it never has all of them
// twice.
#include "engine/prepared/feature_matrix.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/prepared/upload_vector.h"

namespace vicinal {
namespace {

// Floats from one row of dense features to the next.
int64_t RowStride(int64_t cols, const Device& device) {
  if (device.kind() == DeviceKind::kCpu) return cols;
  const int64_t piece = cols >= 128 ? 16 : cols >= 32 ? 4 : 1;
  return (cols + piece - 1) / piece * piece;
}

// Between padded rows on the device and rows without padding on the host, so much goes at once.
constexpr int64_t kFloatsAtOnce = int64_t{1} << 21;

// Rows with padding of zeros between them. The host pads them, some at a time.
StatusOr<Buffer> UploadRows(const HostFeatures& features, int64_t stride, Device& device) {
  const int64_t rows = features.rows, cols = features.cols;
  if (stride == cols) return UploadVector(features.dense, device);
  VICINAL_ASSIGN_OR_RETURN(Buffer buffer, device.Allocate(static_cast<size_t>(rows * stride) * sizeof(float)));
  const int64_t at_once = std::min(rows, std::max<int64_t>(1, kFloatsAtOnce / stride));
  std::vector<float> apart(static_cast<size_t>(at_once * stride));
  for (int64_t begin = 0; begin < rows; begin += at_once) {
    const int64_t count = std::min(at_once, rows - begin);
    for (int64_t r = 0; r < count; ++r) {
      std::copy_n(features.dense.data() + (begin + r) * cols, cols, apart.data() + r * stride);
    }
    VICINAL_RETURN_IF_ERROR(device.CopyFromHost(buffer.as<float>() + begin * stride, apart.data(),
                                                static_cast<size_t>(count * stride) * sizeof(float)));
  }
  return buffer;
}

// Rows [rows, cols] without the padding between them, some at a time.
StatusOr<std::vector<float>> RowsToHost(ConstMatrixView rows, Device& device) {
  std::vector<float> host(static_cast<size_t>(rows.rows * rows.cols));
  if (rows.stride == rows.cols) {
    VICINAL_RETURN_IF_ERROR(device.CopyToHost(host.data(), rows.data, host.size() * sizeof(float)));
    return host;
  }
  const int64_t at_once = std::min(rows.rows, std::max<int64_t>(1, kFloatsAtOnce / rows.stride));
  std::vector<float> padded(static_cast<size_t>(at_once * rows.stride));
  for (int64_t begin = 0; begin < rows.rows; begin += at_once) {
    const int64_t count = std::min(at_once, rows.rows - begin);
    VICINAL_RETURN_IF_ERROR(device.CopyToHost(padded.data(), rows.data + begin * rows.stride,
                                              static_cast<size_t>(count * rows.stride) * sizeof(float)));
    for (int64_t r = 0; r < count; ++r) {
      std::copy_n(padded.data() + r * rows.stride, rows.cols, host.data() + (begin + r) * rows.cols);
    }
  }
  return host;
}

}  // namespace

int64_t FeatureMatrix::BytesOn(const HostFeatures& features, const Device& device) {
  if (!features.sparse) {
    return features.rows * RowStride(features.cols, device) * static_cast<int64_t>(sizeof(float));
  }
  const size_t ends = device.kind() == DeviceKind::kCpu ? 0 : features.csr.row_ptr.size() * sizeof(int64_t);
  return features.size_bytes() + static_cast<int64_t>(ends);
}

StatusOr<std::shared_ptr<const FeatureMatrix>> FeatureMatrix::Upload(const HostFeatures& features, Device& device) {
  auto result = std::make_shared<FeatureMatrix>();
  result->sparse_ = features.sparse;
  result->rows_ = features.rows;
  result->cols_ = features.cols;
  result->size_bytes_ = BytesOn(features, device);
  if (features.sparse) {
    VICINAL_ASSIGN_OR_RETURN(result->csr_, DeviceCsr::Upload(features.csr, device));
    if (device.kind() != DeviceKind::kCpu) result->host_row_ptr_ = features.csr.row_ptr;
    return result;
  }
  const int64_t stride = RowStride(features.cols, device);
  VICINAL_ASSIGN_OR_RETURN(result->buffer_, UploadRows(features, stride, device));
  result->dense_ = {result->buffer_.as<float>(), features.rows, features.cols, stride};
  return result;
}

StatusOr<std::shared_ptr<const FeatureMatrix>> FeatureMatrix::FillDense(
    int64_t rows, int64_t cols, Device& device, const std::function<Status(float* rows)>& fill) {
  if (device.kind() != DeviceKind::kCpu) {
    HostFeatures features;
    features.rows = rows;
    features.cols = cols;
    features.dense.resize(static_cast<size_t>(rows * cols));
    VICINAL_RETURN_IF_ERROR(fill(features.dense.data()));
    return Upload(features, device);
  }
  auto result = std::make_shared<FeatureMatrix>();
  result->rows_ = rows;
  result->cols_ = cols;
  result->size_bytes_ = rows * cols * static_cast<int64_t>(sizeof(float));
  VICINAL_ASSIGN_OR_RETURN(result->buffer_, device.Allocate(static_cast<size_t>(result->size_bytes_)));
  VICINAL_RETURN_IF_ERROR(fill(result->buffer_.as<float>()));
  result->dense_ = {result->buffer_.as<float>(), rows, cols, cols};
  return std::shared_ptr<const FeatureMatrix>(std::move(result));
}

StatusOr<std::shared_ptr<const FeatureMatrix>> FeatureMatrix::FillDenseInParts(int64_t rows, int64_t cols,
                                                                               Device& device,
                                                                               const FillNumbers& fill) {
  if (device.kind() == DeviceKind::kCpu) {
    return FillDense(rows, cols, device, [&](float* all) { return fill(0, rows * cols, all); });
  }
  auto result = std::make_shared<FeatureMatrix>();
  const int64_t stride = RowStride(cols, device);
  result->rows_ = rows;
  result->cols_ = cols;
  result->size_bytes_ = rows * stride * static_cast<int64_t>(sizeof(float));
  VICINAL_ASSIGN_OR_RETURN(result->buffer_, FillRows(rows, cols, stride, device, fill));
  result->dense_ = {result->buffer_.as<float>(), rows, cols, stride};
  return std::shared_ptr<const FeatureMatrix>(std::move(result));
}

StatusOr<HostFeatures> FeatureMatrix::ToHost(Device& device) const {
  HostFeatures host;
  host.sparse = sparse_;
  host.rows = rows_;
  host.cols = cols_;
  if (!sparse_) {
    VICINAL_ASSIGN_OR_RETURN(host.dense, RowsToHost(dense_, device));
    return host;
  }
  const CsrView there = csr();
  const auto entries = static_cast<size_t>(there.nnz);
  host.csr.num_rows = rows_;
  host.csr.num_cols = cols_;
  host.csr.row_ptr.assign(host_row_ptr(), host_row_ptr() + rows_ + 1);
  host.csr.col.resize(entries);
  VICINAL_RETURN_IF_ERROR(device.CopyToHost(host.csr.col.data(), there.col, entries * sizeof(NodeId)));
  if (there.value == nullptr) return host;
  host.csr.value.resize(entries);
  VICINAL_RETURN_IF_ERROR(device.CopyToHost(host.csr.value.data(), there.value, entries * sizeof(float)));
  return host;
}

StatusOr<std::shared_ptr<const FeatureMatrix>> FeatureMatrix::CopyWithRows(const FeatureMatrix& stored,
                                                                           const std::vector<float>& rows,
                                                                           const std::vector<int64_t>& positions,
                                                                           Device& device) {
  VICINAL_CHECK(!stored.sparse_);
  auto result = std::make_shared<FeatureMatrix>();
  result->rows_ = stored.rows_;
  result->cols_ = stored.cols_;
  result->size_bytes_ = stored.size_bytes_;
  VICINAL_ASSIGN_OR_RETURN(result->buffer_, device.Allocate(stored.buffer_.bytes()));
  VICINAL_RETURN_IF_ERROR(device.CopyOnDevice(result->buffer_.data(), stored.buffer_.data(), stored.buffer_.bytes()));
  float* const data = result->buffer_.as<float>();
  const size_t row_bytes = static_cast<size_t>(stored.cols_) * sizeof(float);
  const int64_t stride = stored.dense_.stride;
  for (size_t i = 0; i < positions.size(); ++i) {
    VICINAL_RETURN_IF_ERROR(
        device.CopyFromHost(data + positions[i] * stride, rows.data() + i * stored.cols_, row_bytes));
  }
  result->dense_ = {data, stored.rows_, stored.cols_, stride};
  return result;
}

StatusOr<std::shared_ptr<const FeatureMatrix>> FeatureMatrix::Concatenate(
    const std::vector<const FeatureMatrix*>& parts, Device& device) {
  auto result = std::make_shared<FeatureMatrix>();
  result->sparse_ = parts.front()->sparse_;
  result->cols_ = parts.front()->cols_;
  for (const FeatureMatrix* part : parts) {
    VICINAL_CHECK(part->sparse_ == result->sparse_ && part->cols_ == result->cols_);
    result->rows_ += part->rows_;
  }
  VICINAL_RETURN_IF_ERROR(result->sparse_ ? result->ConcatenateEntries(parts, device)
                                          : result->ConcatenateRows(parts, device));
  return std::shared_ptr<const FeatureMatrix>(std::move(result));
}

Status FeatureMatrix::ConcatenateRows(const std::vector<const FeatureMatrix*>& parts, Device& device) {
  const int64_t stride = RowStride(cols_, device);
  VICINAL_ASSIGN_OR_RETURN(buffer_, device.Allocate(static_cast<size_t>(rows_ * stride) * sizeof(float)));
  dense_ = {buffer_.as<float>(), rows_, cols_, stride};
  size_bytes_ = static_cast<int64_t>(buffer_.bytes());
  float* next = buffer_.as<float>();
  for (const FeatureMatrix* part : parts) {
    VICINAL_RETURN_IF_ERROR(device.CopyOnDevice(next, part->buffer_.data(), part->buffer_.bytes()));
    next += part->rows_ * stride;
  }
  return OkStatus();
}

Status FeatureMatrix::ConcatenateEntries(const std::vector<const FeatureMatrix*>& parts, Device& device) {
  std::vector<CsrView> blocks;
  std::vector<EdgeId> row_ptr = {0};
  for (const FeatureMatrix* part : parts) {
    blocks.push_back(part->csr());
    const EdgeId before = row_ptr.back();
    for (int64_t row = 0; row < part->rows_; ++row) row_ptr.push_back(before + part->host_row_ptr()[row + 1]);
  }
  VICINAL_ASSIGN_OR_RETURN(csr_, DeviceCsr::Concatenate(blocks, row_ptr, device));
  if (device.kind() != DeviceKind::kCpu) host_row_ptr_ = std::move(row_ptr);
  size_bytes_ = csr_->size_bytes() + static_cast<int64_t>(host_row_ptr_.size() * sizeof(EdgeId));
  return OkStatus();
}

}  // namespace vicinal
