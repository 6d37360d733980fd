// SPDX-License-Identifier: Apache-2.0
#include "engine/prepare/order_sample.h"

#include <algorithm>
#include <cmath>

namespace vicinal {
namespace {

constexpr int64_t kRowsPerTask = 256;

// Rows of the renumbered graph.
std::vector<NodeId> ChooseRows(const Csr& graph, const Permutation& order, int64_t max_edges) {
  std::vector<NodeId> rows;
  const double step = static_cast<double>(graph.nnz()) / static_cast<double>(kMeasuredBlocks);
  const double share =
      std::min(1.0, static_cast<double>(max_edges) / static_cast<double>(std::max<int64_t>(1, graph.nnz())));
  int64_t passed = 0;  // edges of the rows before
  for (NodeId row = 0; row < graph.num_rows; ++row) {
    const NodeId old_row = order.ToOld(row);
    const double before = static_cast<double>(passed);
    const double in_block = before - step * std::floor(before / step);
    passed += graph.row_ptr[old_row + 1] - graph.row_ptr[old_row];
    if (in_block < share * step) rows.push_back(row);
  }
  return rows;
}

}  // namespace

OrderSample SampleUnder(const Csr& graph, const Permutation& order, int64_t max_edges, ThreadPool* pool) {
  const std::vector<NodeId> rows = ChooseRows(graph, order, max_edges);
  const int64_t count = static_cast<int64_t>(rows.size());
  OrderSample sample;
  sample.row_ptr.reserve(count + 1);
  sample.row_ptr.push_back(0);
  for (const NodeId row : rows) {
    const NodeId old_row = order.ToOld(row);
    sample.row_ptr.push_back(sample.row_ptr.back() + graph.row_ptr[old_row + 1] - graph.row_ptr[old_row]);
  }
  sample.col.resize(sample.row_ptr.back());
  const auto fill = [&](int64_t row) {
    const EdgeId begin = graph.row_ptr[order.ToOld(rows[row])],
                 count_of_row = sample.row_ptr[row + 1] - sample.row_ptr[row];
    NodeId* const to = sample.col.data() + sample.row_ptr[row];
    for (EdgeId e = 0; e < count_of_row; ++e) to[e] = order.ToNew(graph.col[begin + e]);
    std::sort(to, to + count_of_row);
  };
  const auto fill_range = [&](int64_t task, int) {
    for (int64_t row = task * kRowsPerTask; row < std::min(count, (task + 1) * kRowsPerTask); ++row) fill(row);
  };
  const int64_t tasks = (count + kRowsPerTask - 1) / kRowsPerTask;
  if (pool != nullptr) {
    pool->ParallelFor(tasks, fill_range);
  } else {
    for (int64_t task = 0; task < tasks; ++task) fill_range(task, 0);
  }
  return sample;
}

}  // namespace vicinal
