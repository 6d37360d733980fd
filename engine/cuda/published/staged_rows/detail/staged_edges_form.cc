// SPDX-License-Identifier: Apache-2.0
// The flat form of staged edges, and what is checked of it. One pass over all edges.
#include <string>
#include <vector>

#include "engine/cuda/published/staged_rows/detail/staged_edges.h"
#include "engine/cuda/runtime/check_rows.h"

namespace vicinal::cuda {
namespace {

int64_t BytesIn(const Buffer& buffer) { return static_cast<int64_t>(buffer.bytes()); }

// Whether these are `count` + 1 borders from `first` to `last` that never fall.
bool AreBorders(const int32_t* borders, int64_t count, int64_t first, int64_t last) {
  if (borders[0] != first || borders[count] != last) return false;
  for (int64_t i = 0; i < count; ++i) {
    if (borders[i] > borders[i + 1]) return false;
  }
  return true;
}

// The first thing wrong with partition `p`, whose edges begin at `first`; empty: nothing.
std::string PartitionProblem(const HostStagedEdges& edges, const CsrView& adjacency, int64_t p, int64_t first) {
  const int32_t* const row_ptr = edges.row_ptr.data() + p * (adjacency.rows + 1);
  const int64_t end = row_ptr[adjacency.rows];
  if (end < first || end > static_cast<int64_t>(edges.local.size())) return "a partition has other edges";
  if (!AreBorders(row_ptr, adjacency.rows, first, end)) return "the rows of a partition fall";
  if (!AreBorders(edges.border.data() + p * (kRowRuns + 1), kRowRuns, 0, adjacency.rows)) {
    return "the runs of rows of a partition fall";
  }
  const int32_t* const source = edges.source.data() + p * kStagedSources;
  for (int64_t i = 0; i < kStagedSources; ++i) {
    if (source[i] < -1 || source[i] >= adjacency.cols) return "a staged source is outside of the columns";
  }
  for (int64_t edge = first; edge < end; ++edge) {
    if (edges.local[edge] >= kStagedSources || source[edges.local[edge]] < 0) return "a staged edge has no source";
  }
  return {};
}

std::string Problem(const HostStagedEdges& edges, const CsrView& adjacency) {
  const int64_t partitions = edges.partitions();
  const auto staged = static_cast<int64_t>(edges.local.size()), rest = static_cast<int64_t>(edges.rest_col.size());
  if (partitions < 1 || static_cast<int64_t>(edges.source.size()) != partitions * kStagedSources ||
      static_cast<int64_t>(edges.row_ptr.size()) != partitions * (adjacency.rows + 1) ||
      static_cast<int64_t>(edges.border.size()) != partitions * (kRowRuns + 1)) {
    return "its arrays are of other numbers of partitions";
  }
  const bool weighted = adjacency.value != nullptr;
  if (static_cast<int64_t>(edges.value.size()) != (weighted ? staged : 0) ||
      static_cast<int64_t>(edges.rest_value.size()) != (weighted ? rest : 0)) {
    return "it has other weights than the adjacency";
  }
  if (staged + rest != adjacency.nnz) return "its edges are not as many as the adjacency's";
  int64_t first = 0;
  for (int64_t p = 0; p < partitions; ++p) {
    if (std::string problem = PartitionProblem(edges, adjacency, p, first); !problem.empty()) return problem;
    first = edges.row_ptr[(p + 1) * (adjacency.rows + 1) - 1];
  }
  if (first != staged) return "a staged edge is in no partition";
  return RowsProblem(edges.rest_row_ptr, edges.rest_col, adjacency.rows, adjacency.cols);
}

}  // namespace

FlatLayout StagedEdgesLayout::Flatten() const {
  FlatLayout flat;
  flat.arrays = {{"source", source_.data(), BytesIn(source_)},
                 {"row_ptr", row_ptr_.data(), BytesIn(row_ptr_)},
                 {"border", border_.data(), BytesIn(border_)},
                 {"local", local_.data(), BytesIn(local_)},
                 {"value", value_.data(), BytesIn(value_)},
                 {"rest_row_ptr", rest_row_ptr_.data(), BytesIn(rest_row_ptr_)},
                 {"rest_col", rest_col_.data(), BytesIn(rest_col_)},
                 {"rest_value", rest_value_.data(), BytesIn(rest_value_)}};
  return flat;
}

StatusOr<HostStagedEdges> ReadStagedEdges(const LayoutInput& input, const CsrView& adjacency) {
  HostStagedEdges edges;
  VICINAL_RETURN_IF_ERROR(input.Fill("source", kMaxPartitions * kStagedSources, &edges.source));
  VICINAL_RETURN_IF_ERROR(input.Fill("row_ptr", kMaxPartitions * (adjacency.rows + 1), &edges.row_ptr));
  VICINAL_RETURN_IF_ERROR(input.Fill("border", kMaxPartitions * (kRowRuns + 1), &edges.border));
  VICINAL_RETURN_IF_ERROR(input.Fill("local", adjacency.nnz, &edges.local));
  VICINAL_RETURN_IF_ERROR(input.Fill("value", adjacency.nnz, &edges.value));
  VICINAL_RETURN_IF_ERROR(input.Fill("rest_row_ptr", adjacency.rows + 1, &edges.rest_row_ptr));
  VICINAL_RETURN_IF_ERROR(input.Fill("rest_col", adjacency.nnz, &edges.rest_col));
  VICINAL_RETURN_IF_ERROR(input.Fill("rest_value", adjacency.nnz, &edges.rest_value));
  const std::string problem = Problem(edges, adjacency);
  if (!problem.empty()) return input.Bad(problem);
  return edges;
}

}  // namespace vicinal::cuda
