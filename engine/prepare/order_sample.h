// SPDX-License-Identifier: Apache-2.0
// Rows of a graph in an order, to measure the order with.
#ifndef VICINAL_ENGINE_PREPARE_ORDER_SAMPLE_H_
#define VICINAL_ENGINE_PREPARE_ORDER_SAMPLE_H_

#include <cstdint>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/thread_pool.h"
#include "engine/device/device.h"
#include "engine/graph/csr.h"
#include "engine/reorder/order.h"

namespace vicinal {

// CSR of some rows of a renumbered graph, with all of its columns. Columns ascend within a row.
struct OrderSample {
  std::vector<EdgeId> row_ptr;  // [rows + 1]
  std::vector<NodeId> col;      // [edges]
};

// Blocks of consecutive rows of `graph` renumbered by `order`: kMeasuredBlocks of them, evenly spaced among the edges,
// with `max_edges` edges in all but for the blocks' last rows; a graph of no more edges entirely. `pool` null: only the
// calling thread.
OrderSample SampleUnder(const Csr& graph, const Permutation& order, int64_t max_edges, ThreadPool* pool);
inline constexpr int64_t kMeasuredBlocks = 8;

template <class T>
StatusOr<Buffer> CopyToDevice(const std::vector<T>& values, Device& device) {
  VICINAL_ASSIGN_OR_RETURN(Buffer buffer, device.Allocate(values.size() * sizeof(T)));
  VICINAL_RETURN_IF_ERROR(device.CopyFromHost(buffer.data(), values.data(), values.size() * sizeof(T)));
  return buffer;
}

}  // namespace vicinal

#endif  // VICINAL_ENGINE_PREPARE_ORDER_SAMPLE_H_
