// SPDX-License-Identifier: Apache-2.0
// A version of the features of a graph's edges that is not the graph's own: where kernels read them, complete before
// anybody can ask for it, so that no run derives or reserves anything. Immutable.
//
// Memory: E A floats on the host and, on a device with memory of its own, there again; N A floats of means.
#ifndef VICINAL_ENGINE_PREPARED_EDGE_MATRIX_H_
#define VICINAL_ENGINE_PREPARED_EDGE_MATRIX_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/status.h"
#include "engine/device/device.h"
#include "engine/graph/csr.h"
#include "engine/prepared/prepared_graph.h"

namespace vicinal {

class EdgeMatrix {
 public:
  using HostValues = std::shared_ptr<const std::vector<float>>;

  // The size_bytes() of a matrix [edges, cols] of a graph of `nodes`.
  static int64_t BytesOn(int64_t nodes, int64_t edges, int64_t cols, DeviceKind device);
  // Row e of `values` [nnz, cols] belongs to entry e of `csr`. Errors of the device.
  static StatusOr<std::shared_ptr<const EdgeMatrix>> Make(const Csr& csr, HostValues values, int64_t cols,
                                                          Device& device);

  int64_t nodes() const { return nodes_; }
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  // The numbers on the host; Make of them is equal to this.
  const HostValues& host() const { return host_; }
  // In memory of the device: the features [rows, cols], and the mean features of each node's in-edges from other nodes
  // (graph/edge_features.h) [nodes, cols].
  const float* values() const { return sent_ != nullptr ? sent_->data() : host_->data(); }
  const float* means() const { return means_ != nullptr ? means_->data() : nullptr; }
  int64_t size_bytes() const;
  // The part of size_bytes() that a device with memory of its own has there.
  int64_t device_bytes() const;

 private:
  int64_t means_bytes() const { return means_ != nullptr ? means_->size_bytes() : 0; }

  int64_t nodes_ = 0, rows_ = 0, cols_ = 0;
  HostValues host_;
  std::shared_ptr<const DeviceVector> sent_;   // null on the CPU
  std::shared_ptr<const DeviceVector> means_;  // null without edges
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_PREPARED_EDGE_MATRIX_H_
