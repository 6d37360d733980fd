// SPDX-License-Identifier: Apache-2.0
// Gathers a field's inputs on the CPU: rows are copied one by one, those that the request replaces from there; the
// edges are those of the finder.
#include <algorithm>
#include <utility>

#include "engine/plan/receptive_field/receptive_field_inputs.h"

namespace vicinal::internal {
namespace {

// Minimum floats per task. The copies read memory for the first time; fewer are not worth waking another thread.
constexpr int64_t kGatherFloats = int64_t{1} << 16;

Status GatherDense(ConstMatrixView features, int64_t rows, ThreadPool* pool, ReceptiveFieldWorkspace* work) {
  const int64_t cols = features.cols;
  VICINAL_RETURN_IF_ERROR(work->dense.Reserve(rows * cols));
  const NodeId* nodes = work->finder.nodes();
  float* dense = work->dense.data();
  const auto copy = [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) std::copy_n(features.row(nodes[r]), cols, dense + r * cols);
  };
  if (pool == nullptr || rows * cols < 2 * kGatherFloats) {
    copy(0, rows);
    return OkStatus();
  }
  const int64_t block = std::max<int64_t>(1, kGatherFloats / cols);
  pool->ParallelFor((rows + block - 1) / block,
                    [&](int64_t task, int) { copy(task * block, std::min(rows, (task + 1) * block)); });
  return OkStatus();
}

// Lists the replaced rows among the first `rows` of the field in work->replaced.
void FindReplaced(const ReplacedRows& replaced, int64_t rows, ReceptiveFieldWorkspace* work) {
  for (size_t i = 0; i < replaced.positions.size(); ++i) {
    const NodeId node = static_cast<NodeId>(replaced.positions[i]);
    if (!work->finder.Contains(node) || work->finder.RowOf(node) >= rows) continue;
    work->replaced.emplace_back(work->finder.RowOf(node), static_cast<int64_t>(i));
  }
  std::sort(work->replaced.begin(), work->replaced.end());
}

// Entries of row `row`.
int64_t Entries(const int64_t* row_ptr, int64_t row) { return row_ptr[row + 1] - row_ptr[row]; }

// Makes the row ends those of the replaced rows, too.
void ShiftRowEnds(const int64_t* full, const ReplacedRows& replaced, int64_t rows, ReceptiveFieldWorkspace* work) {
  int64_t* const row_ptr = work->row_ptr.data();
  int64_t more = 0;
  auto next = work->replaced.begin();
  for (int64_t r = 0; r < rows; ++r) {
    if (next != work->replaced.end() && next->first == r) {
      more += Entries(replaced.rows.csr.row_ptr.data(), next->second) - Entries(full, work->finder.nodes()[r]);
      ++next;
    }
    row_ptr[r + 1] += more;
  }
}

Status GatherSparse(const CsrView& features, const ReplacedRows* replaced, int64_t rows,
                    ReceptiveFieldWorkspace* work) {
  VICINAL_RETURN_IF_ERROR(GatherRowEnds(features.row_ptr, rows, work));
  if (replaced != nullptr) ShiftRowEnds(features.row_ptr, *replaced, rows, work);
  const NodeId* nodes = work->finder.nodes();
  const int64_t* row_ptr = work->row_ptr.data();
  const bool valued = features.value != nullptr || replaced != nullptr;
  VICINAL_RETURN_IF_ERROR(work->col.Reserve(row_ptr[rows]));
  if (valued) VICINAL_RETURN_IF_ERROR(work->value.Reserve(row_ptr[rows]));
  auto next = work->replaced.begin();
  for (int64_t r = 0; r < rows; ++r) {
    const NodeId* col = features.col + features.row_ptr[nodes[r]];
    const float* value = features.value != nullptr ? features.value + features.row_ptr[nodes[r]] : nullptr;
    if (next != work->replaced.end() && next->first == r) {
      const int64_t begin = replaced->rows.csr.row_ptr[next->second];
      col = replaced->rows.csr.col.data() + begin;
      value = replaced->rows.csr.value.data() + begin;
      ++next;
    }
    const int64_t count = Entries(row_ptr, r);
    std::copy_n(col, count, work->col.data() + row_ptr[r]);
    if (value != nullptr) {
      std::copy_n(value, count, work->value.data() + row_ptr[r]);
    } else if (valued) {
      std::fill_n(work->value.data() + row_ptr[r], count, 1.0f);
    }
  }
  return OkStatus();
}

Status GatherVectors(const std::vector<NodeVector>& vectors, ReceptiveFieldWorkspace* work) {
  while (work->vectors.size() < vectors.size()) work->vectors.emplace_back(work->host, work->purpose);
  const NodeId* nodes = work->finder.nodes();
  for (size_t v = 0; v < vectors.size(); ++v) {
    const int64_t rows = work->finder.rows(vectors[v].depth);
    VICINAL_RETURN_IF_ERROR(work->vectors[v].Reserve(rows));
    for (int64_t r = 0; r < rows; ++r) work->vectors[v].data()[r] = vectors[v].values[nodes[r]];
  }
  return OkStatus();
}

}  // namespace

Status GatherRowEnds(const int64_t* full, int64_t rows, ReceptiveFieldWorkspace* work) {
  VICINAL_RETURN_IF_ERROR(work->row_ptr.Reserve(rows + 1));
  const NodeId* nodes = work->finder.nodes();
  int64_t* row_ptr = work->row_ptr.data();
  row_ptr[0] = 0;
  for (int64_t r = 0; r < rows; ++r) row_ptr[r + 1] = row_ptr[r] + full[nodes[r] + 1] - full[nodes[r]];
  return OkStatus();
}

Status GatherInputs(const ReceptiveFieldProgram& field, const FeatureMatrix& features, const ReplacedRows* replaced,
                    ThreadPool* pool, ReceptiveFieldWorkspace* work, ReceptiveFieldInputs* inputs) {
  const int64_t rows = work->finder.rows(field.input_depth), cols = features.cols();
  work->replaced.clear();
  if (replaced != nullptr) FindReplaced(*replaced, rows, work);
  if (features.sparse()) {
    VICINAL_RETURN_IF_ERROR(GatherSparse(features.csr(), replaced, rows, work));
  } else {
    VICINAL_RETURN_IF_ERROR(GatherDense(features.dense(), rows, pool, work));
    for (const auto& [row, sent] : work->replaced) {
      std::copy_n(replaced->rows.dense.data() + sent * cols, cols, work->dense.data() + row * cols);
    }
  }
  VICINAL_RETURN_IF_ERROR(GatherVectors(field.vectors, work));
  if (features.sparse()) {
    const int64_t* row_ptr = work->row_ptr.data();
    const bool valued = features.csr().value != nullptr || replaced != nullptr;
    const float* value = valued ? work->value.data() : nullptr;
    inputs->sparse = {rows, cols, row_ptr[rows], row_ptr, work->col.data(), value};
    inputs->sparse_ends = row_ptr;
  } else {
    inputs->dense = {work->dense.data(), rows, cols, cols};
  }
  inputs->nodes = work->finder.nodes();
  inputs->vectors.resize(field.vectors.size());
  for (size_t v = 0; v < field.vectors.size(); ++v) inputs->vectors[v] = work->vectors[v].data();
  inputs->adjacencies.resize(field.adjacencies.size());
  for (size_t i = 0; i < field.adjacencies.size(); ++i) {
    const CsrView edges = work->finder.Adjacency(static_cast<int>(i));
    inputs->adjacencies[i] = {edges.row_ptr, edges.col, edges.value};
  }
  return OkStatus();
}

}  // namespace vicinal::internal
