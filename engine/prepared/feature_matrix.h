// SPDX-License-Identifier: Apache-2.0
// The features of a graph's nodes in device memory, dense or as a CSR. Immutable; handles share them.
#ifndef VICINAL_ENGINE_PREPARED_FEATURE_MATRIX_H_
#define VICINAL_ENGINE_PREPARED_FEATURE_MATRIX_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/base/status.h"
#include "engine/device/device.h"
#include "engine/graph/csr.h"
#include "engine/graph/validate.h"
#include "engine/prepared/device_arrays.h"
#include "engine/prepared/fill_rows.h"

namespace vicinal {

// A feature matrix [N, F] in device memory, rows in execution order. Dense rows on a GPU are aligned for its fastest
// copies: rows of 128 columns and more to 64 bytes, of 32 columns and more to 16 bytes.
class FeatureMatrix {
 public:
  // Bytes on a device, and of the copies on the host that accompany them.
  static int64_t BytesOn(const HostFeatures& features, const Device& device);
  // The rows of `features` must be in execution order.
  static StatusOr<std::shared_ptr<const FeatureMatrix>> Upload(const HostFeatures& features, Device& device);
  // A dense matrix. `fill` writes its rows [rows, cols] to host memory: straight to where they stay on a CPU. The rows
  // must be in execution order. Errors of `fill` and of the device.
  static StatusOr<std::shared_ptr<const FeatureMatrix>> FillDense(int64_t rows, int64_t cols, Device& device,
                                                                  const std::function<Status(float* rows)>& fill);
  // The same, where the rows can be made a part at a time: on a GPU the host never has all of them (fill_rows.h).
  static StatusOr<std::shared_ptr<const FeatureMatrix>> FillDenseInParts(int64_t rows, int64_t cols, Device& device,
                                                                         const FillNumbers& fill);
  // A copy of `stored` whose row positions[i] is row i of `rows` [positions, cols]. Transfers only these rows.
  // REQUIRES: `stored` is dense.
  static StatusOr<std::shared_ptr<const FeatureMatrix>> CopyWithRows(const FeatureMatrix& stored,
                                                                     const std::vector<float>& rows,
                                                                     const std::vector<int64_t>& positions,
                                                                     Device& device);
  // The rows of all `parts`, one after the other. Copies on the device. REQUIRES: there is one, and all are sparse or
  // none is, with as many columns.
  static StatusOr<std::shared_ptr<const FeatureMatrix>> Concatenate(const std::vector<const FeatureMatrix*>& parts,
                                                                    Device& device);
  // The numbers, on the host: Upload of them is equal to this. Errors of the device.
  StatusOr<HostFeatures> ToHost(Device& device) const;
  bool sparse() const { return sparse_; }
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  int64_t entries() const { return sparse_ ? csr_->view().nnz : rows_ * cols_; }
  ConstMatrixView dense() const { return dense_; }  // REQUIRES: !sparse()
  CsrView csr() const { return csr_->view(); }      // REQUIRES: sparse()
  // csr().row_ptr in host memory. REQUIRES: sparse()
  const int64_t* host_row_ptr() const { return host_row_ptr_.empty() ? csr_->view().row_ptr : host_row_ptr_.data(); }
  int64_t size_bytes() const { return size_bytes_; }
  // The part of size_bytes() that a device with memory of its own has there.
  int64_t device_bytes() const { return size_bytes_ - static_cast<int64_t>(host_row_ptr_.size() * sizeof(int64_t)); }

 private:
  Status ConcatenateRows(const std::vector<const FeatureMatrix*>& parts, Device& device);
  Status ConcatenateEntries(const std::vector<const FeatureMatrix*>& parts, Device& device);

  bool sparse_ = false;
  int64_t rows_ = 0, cols_ = 0, size_bytes_ = 0;
  ConstMatrixView dense_;
  Buffer buffer_;
  std::shared_ptr<const DeviceCsr> csr_;
  std::vector<int64_t> host_row_ptr_;  // if the device has memory of its own
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_PREPARED_FEATURE_MATRIX_H_
