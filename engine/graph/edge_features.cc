// SPDX-License-Identifier: Apache-2.0
// The tensor is only read, never copied: it may be the largest of an upload, and lies unaligned in a request. O(E A).
#include "engine/graph/edge_features.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/graph/adjacency.h"
#include "engine/graph/check_tensor.h"

namespace vicinal {
namespace {

constexpr char kName[] = "edge_attr";

}  // namespace

StatusOr<int64_t> CheckEdgeFeatures(const TensorView& edge_attr, int64_t num_edges) {
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
  std::vector<float> row(static_cast<size_t>(width));
  for (int64_t e = 0; e < num_edges; ++e) {
    DecodeFloats(edge_attr, e * width, width, row.data());
    VICINAL_RETURN_IF_ERROR(CheckFinite(row.data(), width, width, kName, e));
  }
  return width;
}

Status CheckEdgeFeatureWidth(int64_t width, int64_t num_edges, int64_t model_width) {
  if (model_width == 0 || width == model_width || num_edges == 0) return OkStatus();
  if (width == 0) {
    return FailedPrecondition("EDGE_ATTR_MISSING",
                              absl::StrCat("the model reads ", model_width,
                                           " features of each edge, but the graph was sent without; send it with "
                                           "edge_attr [E, ",
                                           model_width, "], or use a model without edge_dim"));
  }
  return FailedPrecondition(
      "EDGE_ATTR_WIDTH",
      absl::StrCat("the model reads ", model_width, " features of each edge, but the graph's edge_attr has ", width,
                   " columns; send the columns that the model was trained with"));
}

std::vector<float> OrderEdgeFeatures(const TensorView& edge_attr, const std::vector<EdgeId>& sent) {
  const int64_t width = edge_attr.shape[1];
  std::vector<float> rows(sent.size() * static_cast<size_t>(width));
  float* to = rows.data();
  for (const EdgeId edge : sent) {
    DecodeFloats(edge_attr, edge * width, width, to);
    to += width;
  }
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
