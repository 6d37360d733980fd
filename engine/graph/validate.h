// SPDX-License-Identifier: Apache-2.0
// From tensors as uploaded to an EdgeList and a feature matrix that the rest of the engine may trust.
#ifndef VICINAL_ENGINE_GRAPH_VALIDATE_H_
#define VICINAL_ENGINE_GRAPH_VALIDATE_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/api/requests.h"
#include "engine/base/status.h"
#include "engine/base/tensor.h"
#include "engine/graph/csr.h"
#include "engine/graph/edge_list.h"

namespace vicinal {

// Assembles edges from `edge_index` int32|int64 [2, E] and optional `edge_weight` float32 [E]. INVALID_ARGUMENT, naming
// the first fault: types, shapes, counts that disagree, an id below 0 or >= num_nodes ("edge_index[0, 17] is 2708; ids
// must be within 0..2707"), a weight that is NaN or infinite, num_nodes < 1 or >= 2^31. Isolated nodes, loops,
// duplicates and E = 0 are fine.
StatusOr<EdgeList> AssembleEdges(int64_t num_nodes, const TensorView& edge_index,
                                 const std::optional<TensorView>& edge_weight);

// Features on the host, checked: rows in the order they came.
struct HostFeatures {
  bool sparse = false;
  int64_t rows = 0;          // N
  int64_t cols = 0;          // F
  std::vector<float> dense;  // [N, F] row-major, when dense
  Csr csr;                   // when sparse; values always present

  int64_t size_bytes() const { return sparse ? csr.size_bytes() : static_cast<int64_t>(dense.size() * sizeof(float)); }
};

// INVALID_ARGUMENT, naming the first fault: wrong types or shapes, rows != expected_rows (unless that is < 0), F < 1,
// indptr that does not start at 0, falls or does not end at nnz, a column out of range, not ascending or twice in a
// row, a value that is not finite. `request`: the field of a request that holds them ("features"; messages then say
// "features.csr.indptr"), empty for an upload's tensors ("x_indptr").
StatusOr<HostFeatures> AssembleFeatures(const FeatureTensors& tensors, int64_t expected_rows, std::string_view request);

// Dense features as AssembleFeatures would take them, without a copy: their shape, [N, F]. Same errors. REQUIRES:
// tensors.dense.
struct DenseShape {
  int64_t rows = 0, cols = 0;
};
StatusOr<DenseShape> CheckDenseFeatures(const FeatureTensors& tensors, int64_t expected_rows, std::string_view request);

// Writes the rows of `x`, which CheckDenseFeatures has passed, to `rows` [N, F]: row r to new_of_old[r], or to r if
// that is empty.
void WriteRows(const TensorView& x, const std::vector<NodeId>& new_of_old, float* rows);

// Likewise, and gives the memory of `x` back to the system as it is read: together they take little more than one of
// them, at most kTakeRowsBytes and a bit per row. `x` reads as zeros afterwards, in part. REQUIRES: it lies in private
// memory that can be written, and nobody needs it any more.
inline constexpr int64_t kTakeRowsBytes = int64_t{4} << 20;
void TakeRows(const TensorView& x, const std::vector<NodeId>& new_of_old, float* rows);

// Row new_of_old[r] of the result is row r of `features`.
HostFeatures PermuteRows(const HostFeatures& features, const std::vector<NodeId>& new_of_old);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_GRAPH_VALIDATE_H_
