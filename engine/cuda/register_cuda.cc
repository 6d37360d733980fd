// SPDX-License-Identifier: Apache-2.0
// The GPU's list: best first. A new kernel is a launcher, a class, a maker in kernels.h and a line here.
#include <string>

#include "engine/cuda/kernels.h"

namespace vicinal::cuda {

void RegisterCudaKernels(KernelRegistry& registry) {
  registry.aggregate.Add(MakeBalancedRows());
  registry.aggregate.Add(MakeDenseTiles());
  registry.aggregate.Add(MakeRowCache("row_cache", {}));
  for (int coarsening : {1, 2, 4}) {
    registry.aggregate.Add(MakeRowCache("row_cache_cf" + std::to_string(coarsening), {coarsening}));
  }
  registry.attention.Add(MakeFusedAttention());
  registry.attention.Add(MakePlainAttention());
  registry.dense_update.Add(MakeDenseUpdate());
  registry.sparse_update.Add(MakeSparseUpdate());
  registry.sparse_aggregate_update.Add(MakeSparseAggregateUpdate());
  registry.rowwise.Add(MakeRowwise());
}

}  // namespace vicinal::cuda
