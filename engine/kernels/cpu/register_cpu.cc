// SPDX-License-Identifier: Apache-2.0
// The CPU's list of kernels: best first, the reference last. A new kernel needs a file, a factory in kernels.h and a
// line here.
#include "engine/kernels/cpu/kernels.h"
#include "engine/kernels/registry.h"

namespace vicinal {

void RegisterCpuKernels(KernelRegistry& registry) {
  registry.aggregate.Add(internal::MakeSimdAggregate());
  registry.aggregate.Add(internal::MakeTiledAggregate());
  registry.aggregate.Add(internal::MakeReferenceAggregate());
  registry.attention.Add(internal::MakeSimdAttention());
  registry.attention.Add(internal::MakeReferenceAttention());
  registry.message_reduce.Add(internal::MakeTemplateSpmm());
  registry.message_reduce.Add(internal::MakeReferenceMessageReduce());
  registry.expression.Add(internal::MakeEdgeTiles());
  registry.expression.Add(internal::MakeReferenceExpression());
  registry.edge_scores.Add(internal::MakeTemplateSddmm());
  registry.edge_scores.Add(internal::MakeReferenceEdgeScores());
  registry.dense_update.Add(internal::MakeSimdDenseUpdate());
  registry.dense_update.Add(internal::MakeReferenceDenseUpdate());
  registry.sparse_update.Add(internal::MakeSimdSparseUpdate());
  registry.sparse_update.Add(internal::MakeReferenceSparseUpdate());
  registry.sparse_aggregate_update.Add(internal::MakeSimdSparseAggregateUpdate());
  registry.sparse_aggregate_update.Add(internal::MakeReferenceSparseAggregateUpdate());
  registry.rowwise.Add(internal::MakeSimdRowwise());
  registry.rowwise.Add(internal::MakeReferenceRowwise());
}

}  // namespace vicinal
