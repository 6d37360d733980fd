// SPDX-License-Identifier: Apache-2.0
// Makers of the CUDA kernels, one per operation and strategy; register_cuda.cc puts them in order. Private to the
// backend.
#ifndef VICINAL_ENGINE_CUDA_COMMON_KERNELS_H_
#define VICINAL_ENGINE_CUDA_COMMON_KERNELS_H_

#include <cstdint>
#include <memory>

#include "engine/kernels/kernel.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda {

// Orders of evaluation (Kernel::ReductionOrder): binned_rows has 0 but where it scales sources first, the others each a
// range of their own.
inline constexpr int64_t kRowCacheOrder = 1;
inline constexpr int64_t kTemplateSpmmOrder = 2;
inline constexpr int64_t kScaledRowsOrder = 3;
inline constexpr int64_t kCusparseOrder = 16;
inline constexpr int64_t kNeighborGroupOrder = int64_t{1} << 21;
inline constexpr int64_t kDenseTilesOrder = int64_t{1} << 26;
inline constexpr int64_t kPartitionDualOrder = int64_t{1} << 28;
inline constexpr int64_t kStagedRowsOrder = int64_t{1} << 29;
inline constexpr int64_t kSourcePanelsOrder = int64_t{1} << 30;
inline constexpr int64_t kLengthSortedRowsOrder = int64_t{1} << 31;
inline constexpr int64_t kTensorTilesOrder = int64_t{3} << 30;

std::unique_ptr<const AggregateKernel> MakeBinnedRows();
std::unique_ptr<const AggregateKernel> MakeDenseTiles();
std::unique_ptr<const AggregateKernel> MakeLengthSortedRows();
std::unique_ptr<const AggregateKernel> MakeSourcePanels();
std::unique_ptr<const AggregateKernel> MakeRowCache();
std::unique_ptr<const AggregateKernel> MakeNeighborGroup();
std::unique_ptr<const AggregateKernel> MakeNeighborGroupAtomics();
std::unique_ptr<const AggregateKernel> MakePartitionDual();
std::unique_ptr<const AggregateKernel> MakeTemplateSpmmAggregate();
std::unique_ptr<const AggregateKernel> MakeCusparse();
std::unique_ptr<const AttentionKernel> MakeFusedAttention();
std::unique_ptr<const AttentionKernel> MakePlainAttention();
std::unique_ptr<const MessageReduceKernel> MakeTemplateSpmm();
std::unique_ptr<const EdgeScoresKernel> MakeTemplateSddmm();
std::unique_ptr<const DenseUpdateKernel> MakeTensorTiles();
std::unique_ptr<const DenseUpdateKernel> MakeDenseUpdate();
std::unique_ptr<const SparseUpdateKernel> MakeWarpRows();
std::unique_ptr<const SparseUpdateKernel> MakeSparseUpdate();
std::unique_ptr<const SparseAggregateUpdateKernel> MakeSparseAggregateUpdate();
std::unique_ptr<const RowwiseKernel> MakeRowwise();

// All of them, best first: register_cuda.cc.
void RegisterCudaKernels(KernelRegistry& registry);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMMON_KERNELS_H_
