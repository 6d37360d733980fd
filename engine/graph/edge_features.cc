// SPDX-License-Identifier: Apache-2.0
// The tensor is only read, never copied: it may be the largest of an upload, and lies unaligned in a request. O(E A).
#include "engine/graph/edge_features.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/graph/adjacency.h"
#include "engine/graph/check_tensor.h"
#include "engine/graph/tasks.h"

namespace vicinal {
namespace {

constexpr char kName[] = "edge_attr";

// Values that a thread takes at a time, and those that are widened at once.
constexpr int64_t kValuesPerTask = int64_t{1} << 18, kValuesPerBlock = 1024;

// Calls body(begin, end) for ranges that make up the rows [0, rows), of `width` values each.
template <class Body>
void ForRows(ThreadPool* pool, int64_t rows, int64_t width, const Body& body) {
  const int64_t rows_per_task = std::max<int64_t>(1, kValuesPerTask / width);
  internal::ForTasks(pool, (rows + rows_per_task - 1) / rows_per_task,
                     [&](int64_t task) { body(task * rows_per_task, std::min(rows, (task + 1) * rows_per_task)); });
}

// An error at the first value of the rows [begin, end) that is not finite.
Status CheckRows(const TensorView& edge_attr, int64_t begin, int64_t end) {
  if (begin == end) return OkStatus();  // without edges there may be any number of columns
  const int64_t width = edge_attr.shape[1], rows_per_block = std::max<int64_t>(1, kValuesPerBlock / width);
  std::vector<float> values(static_cast<size_t>(rows_per_block * width));
  for (int64_t row = begin; row < end; row += rows_per_block) {
    const int64_t count = std::min(end - row, rows_per_block) * width;
    DecodeFloats(edge_attr, row * width, count, values.data());
    VICINAL_RETURN_IF_ERROR(CheckFinite(values.data(), count, width, kName, row));
  }
  return OkStatus();
}

}  // namespace

StatusOr<int64_t> CheckEdgeFeatures(const TensorView& edge_attr, int64_t num_edges, ThreadPool* pool) {
  VICINAL_RETURN_IF_ERROR(
      internal::CheckTensor(edge_attr, kName, {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}, 2));
  const int64_t width = edge_attr.shape[1];
  if (edge_attr.shape[0] != num_edges) {
    return InvalidArgument("COUNT_MISMATCH", kName,
                           absl::StrCat("edge_attr has ", edge_attr.shape[0], " rows, but edge_index has ", num_edges,
                                        " edges; send one row per edge, in the order of the edges, or none at all"));
  }
  if (width < 1 || width > std::numeric_limits<NodeId>::max()) {
    return InvalidArgument("BAD_SHAPE", kName,
                           absl::StrCat("edge_attr has ", width, " columns; there must be between 1 and ",
                                        std::numeric_limits<NodeId>::max()));
  }
  internal::Lowest first_fault(num_edges);  // the first row of a range with one
  ForRows(pool, num_edges, width, [&](int64_t begin, int64_t end) {
    if (!CheckRows(edge_attr, begin, end).ok()) first_fault.Take(begin);
  });
  VICINAL_RETURN_IF_ERROR(CheckRows(edge_attr, first_fault.value(), num_edges));
  return width;
}

Status CheckEdgeFeatureWidth(int64_t width, int64_t num_edges, int64_t model_width, std::string_view what) {
  if (model_width == 0 || width == model_width || num_edges == 0) return OkStatus();
  if (width == 0) {
    return FailedPrecondition(
        "EDGE_ATTR_MISSING",
        absl::StrCat(
            "the model reads ", model_width,
            " features of each edge, but the graph was sent without; send it with "
            "edge_attr [E, ",
            model_width,
            "], or use a model without edge_dim; for a stored graph that keeps its edge order, upload an edge feature "
            "set, or name one that it has (edge_feature_set)"));
  }
  return FailedPrecondition(
      "EDGE_ATTR_WIDTH",
      absl::StrCat("the model reads ", model_width, " features of each edge, but ", std::string(what), " has ", width,
                   " columns; send the columns that the model was trained with"));
}

std::vector<float> OrderEdgeFeatures(const TensorView& edge_attr, const std::vector<EdgeId>& sent, ThreadPool* pool) {
  const int64_t width = edge_attr.shape[1];
  std::vector<float> rows(sent.size() * static_cast<size_t>(width));
  ForRows(pool, static_cast<int64_t>(sent.size()), width, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) DecodeFloats(edge_attr, sent[k] * width, width, rows.data() + k * width);
  });
  return rows;
}

std::vector<float> MeanEdgeFeatures(const Csr& graph, const std::vector<float>& features, int64_t width) {
  std::vector<float> means(static_cast<size_t>(graph.num_rows * width));
  std::vector<double> sums(static_cast<size_t>(width));
  const auto add = [&](EdgeId begin, EdgeId end) {
    for (EdgeId e = begin; e < end; ++e) {
      for (int64_t a = 0; a < width; ++a) sums[a] += features[e * width + a];
    }
  };
  for (int64_t row = 0; row < graph.num_rows; ++row) {
    const EdgeId begin = graph.row_ptr[row], end = graph.row_ptr[row + 1];
    const LoopRange loops = LoopsOf(graph.view(), row);
    std::fill(sums.begin(), sums.end(), 0.0);
    add(begin, loops.begin);
    add(loops.end, end);
    const int64_t others = end - begin - (loops.end - loops.begin);
    const auto count = static_cast<double>(std::max<int64_t>(others, 1));
    for (int64_t a = 0; a < width; ++a) means[row * width + a] = static_cast<float>(sums[a] / count);
  }
  return means;
}

}  // namespace vicinal
