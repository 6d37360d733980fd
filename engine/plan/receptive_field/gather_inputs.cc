// SPDX-License-Identifier: Apache-2.0
// Gathers a field's inputs on the CPU: rows are copied one by one; the edges are those of the finder.
#include <algorithm>

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

Status GatherSparse(const CsrView& features, ReceptiveFieldWorkspace* work, int64_t rows) {
  VICINAL_RETURN_IF_ERROR(GatherRowEnds(features.row_ptr, rows, work));
  const NodeId* nodes = work->finder.nodes();
  const int64_t* row_ptr = work->row_ptr.data();
  VICINAL_RETURN_IF_ERROR(work->col.Reserve(row_ptr[rows]));
  if (features.value != nullptr) VICINAL_RETURN_IF_ERROR(work->value.Reserve(row_ptr[rows]));
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t begin = features.row_ptr[nodes[r]], count = row_ptr[r + 1] - row_ptr[r];
    std::copy_n(features.col + begin, count, work->col.data() + row_ptr[r]);
    if (features.value != nullptr) std::copy_n(features.value + begin, count, work->value.data() + row_ptr[r]);
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

Status GatherInputs(const ReceptiveFieldProgram& field, const FeatureMatrix& features, ThreadPool* pool,
                    ReceptiveFieldWorkspace* work, ReceptiveFieldInputs* inputs) {
  const int64_t rows = work->finder.rows(field.input_depth), cols = features.cols();
  VICINAL_RETURN_IF_ERROR(features.sparse() ? GatherSparse(features.csr(), work, rows)
                                            : GatherDense(features.dense(), rows, pool, work));
  VICINAL_RETURN_IF_ERROR(GatherVectors(field.vectors, work));
  if (features.sparse()) {
    const int64_t* row_ptr = work->row_ptr.data();
    const float* value = features.csr().value != nullptr ? work->value.data() : nullptr;
    inputs->sparse = {rows, cols, row_ptr[rows], row_ptr, work->col.data(), value};
    inputs->sparse_ends = row_ptr;
  } else {
    inputs->dense = {work->dense.data(), rows, cols, cols};
  }
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
