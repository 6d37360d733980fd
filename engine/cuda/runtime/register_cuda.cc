// SPDX-License-Identifier: Apache-2.0
// The GPU's list: best first. A new kernel is a launcher, a class, a maker in kernels.h and a line here.
#include "engine/cuda/common/kernels.h"

namespace vicinal::cuda {

void RegisterCudaKernels(KernelRegistry& registry) {
  registry.aggregate.Add(MakeBinnedRows());
  registry.aggregate.Add(MakeDenseTiles());
  registry.aggregate.Add(MakeLengthSortedRows());
  registry.aggregate.Add(MakeSourcePanels());
  registry.aggregate.Add(MakeRowCache());
  // Published families and the vendor's library, to be measured on a graph and forced.
  registry.aggregate.Add(MakeNeighborGroup());
  registry.aggregate.Add(MakePartitionDual());
  registry.aggregate.Add(MakeTemplateSpmmAggregate());
  registry.aggregate.Add(MakeCusparse());
  registry.aggregate.Add(MakeNeighborGroupAtomics());
  registry.attention.Add(MakeFusedAttention());
  registry.attention.Add(MakePlainAttention());
  registry.message_reduce.Add(MakeTemplateSpmm());
  registry.edge_scores.Add(MakeTemplateSddmm());
  registry.dense_update.Add(MakeDenseUpdate());
  registry.dense_update.Add(MakeTensorTiles());
  registry.sparse_update.Add(MakeWarpRows());
  registry.sparse_update.Add(MakeSparseUpdate());
  registry.sparse_aggregate_update.Add(MakeSparseAggregateUpdate());
  registry.rowwise.Add(MakeRowwise());
}

}  // namespace vicinal::cuda
