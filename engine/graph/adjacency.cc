// SPDX-License-Identifier: Apache-2.0
// Turned round if the spec says so, self-loops, then weights: each a pass over the rows. Invariant: a result holds
// finite values only, columns ascending. Cost: O(N + E) time; the result plus 8 N bytes while GCN's weights are
// computed, and the turned graph while loops are added to it.
#include "engine/graph/adjacency.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal {
namespace {

Csr CopyAsSent(const Csr& graph, bool weighted) {
  Csr copy;
  copy.num_rows = graph.num_rows;
  copy.num_cols = graph.num_cols;
  copy.row_ptr = graph.row_ptr;
  copy.col = graph.col;
  if (weighted) copy.value = graph.value;
  return copy;
}

// Exactly one loop in each row, between the sources before and after it.
Csr WithOneLoopEach(const Csr& graph, const AdjacencySpec& spec, bool weighted) {
  const bool keep_last = spec.loops == SelfLoops::kAddRemaining;
  Csr out;
  out.num_rows = graph.num_rows;
  out.num_cols = graph.num_cols;
  out.row_ptr.resize(graph.num_rows + 1);
  const CsrView sent = graph.view();
  int64_t size = 0;
  for (int64_t row = 0; row < graph.num_rows; ++row) {
    const LoopRange loops = LoopsOf(sent, row);
    size += graph.row_ptr[row + 1] - graph.row_ptr[row] - (loops.end - loops.begin) + 1;
    out.row_ptr[row + 1] = size;
  }
  out.col.resize(size);
  if (weighted) out.value.resize(size);
  for (int64_t row = 0; row < graph.num_rows; ++row) {
    const LoopRange loops = LoopsOf(sent, row);
    const EdgeId begin = graph.row_ptr[row], end = graph.row_ptr[row + 1];
    const EdgeId loop_at = out.row_ptr[row] + (loops.begin - begin);
    std::copy(graph.col.begin() + begin, graph.col.begin() + loops.begin, out.col.begin() + out.row_ptr[row]);
    out.col[loop_at] = static_cast<NodeId>(row);
    std::copy(graph.col.begin() + loops.end, graph.col.begin() + end, out.col.begin() + loop_at + 1);
    if (!weighted) continue;
    std::copy(graph.value.begin() + begin, graph.value.begin() + loops.begin, out.value.begin() + out.row_ptr[row]);
    out.value[loop_at] = keep_last && loops.begin < loops.end ? graph.value[loops.end - 1] : spec.loop_weight;
    std::copy(graph.value.begin() + loops.end, graph.value.begin() + end, out.value.begin() + loop_at + 1);
  }
  return out;
}

int64_t NameOf(int64_t node, const std::vector<NodeId>* old_of_new) { return old_of_new ? (*old_of_new)[node] : node; }

// degree^-1/2 of each row, 0 where the degree is 0. Without values each entry weighs 1.
StatusOr<std::vector<double>> InverseRootDegrees(const Csr& csr, const std::vector<NodeId>* old_of_new) {
  std::vector<double> result(csr.num_rows, 0.0);
  for (int64_t row = 0; row < csr.num_rows; ++row) {
    const EdgeId begin = csr.row_ptr[row], end = csr.row_ptr[row + 1];
    double degree = static_cast<double>(end - begin);
    if (!csr.value.empty()) {
      degree = 0.0;
      for (EdgeId e = begin; e < end; ++e) degree += csr.value[e];
    }
    if (degree < 0.0) {
      const std::string node = absl::StrCat(NameOf(row, old_of_new));
      const Status refusal = FailedPrecondition(
          "NEGATIVE_DEGREE", absl::StrCat("the in-edges of node ", node, " weigh ", degree,
                                          " in sum; GCN's normalisation takes the root of that sum, which must not be "
                                          "below 0: change the graph's edge weights, or use a model with "
                                          "normalize=False"));
      return WithMetadata(refusal, "node", node);
    }
    if (degree > 0.0) result[row] = 1.0 / std::sqrt(degree);
  }
  return result;
}

// D^-1/2 A D^-1/2, in double, each weight rounded once.
Status NormaliseGcn(Csr* csr, const std::vector<NodeId>* old_of_new) {
  VICINAL_ASSIGN_OR_RETURN(const std::vector<double> scale, InverseRootDegrees(*csr, old_of_new));
  const bool weighted = !csr->value.empty();
  csr->value.resize(csr->nnz());
  for (int64_t row = 0; row < csr->num_rows; ++row) {
    for (EdgeId e = csr->row_ptr[row]; e < csr->row_ptr[row + 1]; ++e) {
      const double weight = weighted ? csr->value[e] : 1.0;
      csr->value[e] = static_cast<float>(scale[csr->col[e]] * weight * scale[row]);
      if (std::isfinite(csr->value[e])) continue;
      return FailedPrecondition("WEIGHT_OVERFLOW",
                                absl::StrCat("GCN's normalised weight of the edge from node ",
                                             NameOf(csr->col[e], old_of_new), " to node ", NameOf(row, old_of_new),
                                             " does not fit float32: the edge weights around them are too small in "
                                             "sum; scale the graph's edge weights"));
    }
  }
  return OkStatus();
}

// 1 / degree for every edge, loop_weight / degree for loops.
void ShareByTarget(float loop_weight, Csr* csr) {
  csr->value.resize(csr->nnz());
  for (int64_t row = 0; row < csr->num_rows; ++row) {
    const EdgeId begin = csr->row_ptr[row], end = csr->row_ptr[row + 1];
    for (EdgeId e = begin; e < end; ++e) {
      const double weight = csr->col[e] == row ? loop_weight : 1.0;
      csr->value[e] = static_cast<float>(weight / static_cast<double>(end - begin));
    }
  }
}

// Weights by the degrees of sources: D^-1/2 A D^-1/2 if `symmetric`, otherwise A D^-1. Loops become 0.
Status NormaliseBySource(bool symmetric, const std::vector<NodeId>* old_of_new, Csr* csr) {
  const bool weighted = !csr->value.empty();
  csr->value.resize(csr->nnz(), 1.0f);
  std::vector<double> scale(csr->num_cols, 0.0);  // first the degrees
  for (int64_t row = 0; row < csr->num_rows; ++row) {
    for (EdgeId e = csr->row_ptr[row]; e < csr->row_ptr[row + 1]; ++e) {
      if (csr->col[e] == row) csr->value[e] = 0.0f;
      if (weighted && csr->value[e] < 0.0f) {
        return FailedPrecondition("NEGATIVE_WEIGHT",
                                  absl::StrCat("the edge from node ", NameOf(csr->col[e], old_of_new), " to node ",
                                               NameOf(row, old_of_new), " weighs ", csr->value[e],
                                               ", which must not be below 0 in the model's normalisation; change "
                                               "the graph's edge weights"));
      }
      scale[csr->col[e]] += csr->value[e];
    }
  }
  for (double& s : scale) s = s == 0.0 ? 0.0 : 1.0 / (symmetric ? std::sqrt(s) : s);
  for (int64_t row = 0; row < csr->num_rows; ++row) {
    const double target = symmetric ? scale[row] : 1.0;
    for (EdgeId e = csr->row_ptr[row]; e < csr->row_ptr[row + 1]; ++e) {
      csr->value[e] = static_cast<float>(scale[csr->col[e]] * csr->value[e] * target);
      if (!std::isfinite(csr->value[e])) {
        return FailedPrecondition(
            "WEIGHT_OVERFLOW",
            absl::StrCat("the normalised weight of the edge from node ", NameOf(csr->col[e], old_of_new), " to node ",
                         NameOf(row, old_of_new), " does not fit float32; scale the graph's edge weights"));
      }
    }
  }
  return OkStatus();
}

// The weights of an adjacency whose loops are as they shall be.
Status SetWeights(const AdjacencySpec& spec, const std::vector<NodeId>* old_of_new, Csr* csr) {
  switch (spec.weighting) {
    case EdgeWeighting::kNone:
    case EdgeWeighting::kSent:
      return OkStatus();
    case EdgeWeighting::kGcnSent:
    case EdgeWeighting::kGcnOnes:
      return NormaliseGcn(csr, old_of_new);
    case EdgeWeighting::kMeanOnes:
      ShareByTarget(spec.loop_weight, csr);
      return OkStatus();
    case EdgeWeighting::kSourceSymSent:
    case EdgeWeighting::kSourceSymOnes:
      return NormaliseBySource(true, old_of_new, csr);
    case EdgeWeighting::kSourceMeanSent:
    case EdgeWeighting::kSourceMeanOnes:
      return NormaliseBySource(false, old_of_new, csr);
  }
  return OkStatus();
}

// Where the graph has no weights, each counts 1.
EdgeWeighting WithoutWeights(EdgeWeighting weighting) {
  switch (weighting) {
    case EdgeWeighting::kGcnSent:
      return EdgeWeighting::kGcnOnes;
    case EdgeWeighting::kSourceSymSent:
      return EdgeWeighting::kSourceSymOnes;
    case EdgeWeighting::kSourceMeanSent:
      return EdgeWeighting::kSourceMeanOnes;
    default:
      return weighting;
  }
}

}  // namespace

LoopRange LoopsOf(const CsrView& graph, int64_t row) {
  const auto loops =
      std::equal_range(graph.col + graph.row_ptr[row], graph.col + graph.row_ptr[row + 1], static_cast<NodeId>(row));
  return {loops.first - graph.col, loops.second - graph.col};
}

StatusOr<Csr> BuildAdjacency(const Csr& graph, const AdjacencySpec& spec, const std::vector<NodeId>* old_of_new) {
  const AdjacencySpec canonical = CanonicalSpec(spec, !graph.value.empty());
  if (canonical.weighting == EdgeWeighting::kSent && graph.value.empty() && graph.nnz() > 0) {
    return FailedPrecondition(
        "EDGE_WEIGHT_MISSING",
        "the model propagates over edge weights, but the graph has none; upload the graph with edge_weight, or use a "
        "model without");
  }
  const bool weighted = ReadsEdgeWeights(canonical.weighting);
  const bool as_sent = canonical.loops == SelfLoops::kAsSent;
  Csr adjacency;
  if (canonical.transposed) {
    adjacency = Transposed(graph, weighted);
    if (!as_sent) adjacency = WithOneLoopEach(adjacency, canonical, weighted);
  } else {
    adjacency = as_sent ? CopyAsSent(graph, weighted) : WithOneLoopEach(graph, canonical, weighted);
  }
  VICINAL_RETURN_IF_ERROR(SetWeights(canonical, old_of_new, &adjacency));
  return adjacency;
}

Csr Transposed(const Csr& graph, bool weighted) {
  weighted = weighted && !graph.value.empty();
  Csr turned;
  turned.num_rows = graph.num_cols;
  turned.num_cols = graph.num_rows;
  turned.row_ptr.assign(turned.num_rows + 1, 0);
  for (const NodeId col : graph.col) ++turned.row_ptr[col + 1];
  std::partial_sum(turned.row_ptr.begin(), turned.row_ptr.end(), turned.row_ptr.begin());
  turned.col.resize(graph.col.size());
  if (weighted) turned.value.resize(graph.col.size());
  std::vector<EdgeId> next(turned.row_ptr.begin(), turned.row_ptr.end() - 1);
  // Rows are read in their order, so that each new row's columns ascend.
  for (int64_t row = 0; row < graph.num_rows; ++row) {
    for (EdgeId e = graph.row_ptr[row]; e < graph.row_ptr[row + 1]; ++e) {
      const EdgeId at = next[graph.col[e]]++;
      turned.col[at] = static_cast<NodeId>(row);
      if (weighted) turned.value[at] = graph.value[e];
    }
  }
  return turned;
}

std::vector<float> DegreeScale(const Csr& graph, SelfLoops loops) {
  std::vector<float> scale(graph.num_rows, 0.0f);
  for (int64_t row = 0; row < graph.num_rows; ++row) {
    int64_t degree = graph.row_ptr[row + 1] - graph.row_ptr[row];
    if (loops != SelfLoops::kAsSent) {
      const LoopRange own = LoopsOf(graph.view(), row);
      degree += 1 - (own.end - own.begin);
    }
    if (degree > 0) scale[row] = static_cast<float>(1.0 / std::sqrt(static_cast<double>(degree)));
  }
  return scale;
}

AdjacencySpec CanonicalSpec(const AdjacencySpec& spec, bool weighted) {
  AdjacencySpec canonical = spec;
  if (!weighted) canonical.weighting = WithoutWeights(spec.weighting);
  const bool ones = !ReadsEdgeWeights(canonical.weighting);
  // Where every edge weighs 1, the two ways of having one loop each give the same.
  if (ones && spec.loops == SelfLoops::kAddRemaining) canonical.loops = SelfLoops::kReplace;
  const bool weighs_loops = canonical.weighting == EdgeWeighting::kMeanOnes;
  if (!weighs_loops && (ones || spec.loops == SelfLoops::kAsSent)) canonical.loop_weight = 1.0f;
  return canonical;
}

AdjacencyShape ShapeOfAdjacency(const Csr& graph, const AdjacencySpec& spec) {
  const AdjacencySpec canonical = CanonicalSpec(spec, !graph.value.empty());
  AdjacencyShape shape{graph.num_rows, graph.num_cols, graph.nnz(), false, 0};
  if (canonical.loops != SelfLoops::kAsSent) {
    for (int64_t row = 0; row < graph.num_rows; ++row) {
      const LoopRange loops = LoopsOf(graph.view(), row);
      shape.edges += 1 - (loops.end - loops.begin);
    }
  }
  shape.weighted = canonical.weighting != EdgeWeighting::kNone && shape.edges > 0;
  const int64_t entry_bytes = static_cast<int64_t>(sizeof(NodeId) + (shape.weighted ? sizeof(float) : 0));
  shape.bytes = (shape.rows + 1) * static_cast<int64_t>(sizeof(EdgeId)) + shape.edges * entry_bytes;
  return shape;
}

int64_t AdjacencyBytesBound(int64_t num_nodes, int64_t num_edges) {
  const int64_t entry_bytes = sizeof(NodeId) + sizeof(float);
  return (num_nodes + 1) * static_cast<int64_t>(sizeof(EdgeId)) + (num_nodes + num_edges) * entry_bytes;
}

}  // namespace vicinal
