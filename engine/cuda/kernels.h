// SPDX-License-Identifier: Apache-2.0
// Makers of the CUDA kernels, one per operation and strategy; register_cuda.cc puts them in order. Private to the
// backend.
#ifndef VICINAL_ENGINE_CUDA_KERNELS_H_
#define VICINAL_ENGINE_CUDA_KERNELS_H_

#include <memory>
#include <string>

#include "engine/cuda/row_cache.h"
#include "engine/kernels/kernel.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda {

std::unique_ptr<const AggregateKernel> MakeBalancedRows();
std::unique_ptr<const AggregateKernel> MakeDenseTiles();
std::unique_ptr<const AggregateKernel> MakeRowCache(std::string name, const RowCacheConfig& config);
std::unique_ptr<const AttentionKernel> MakeFusedAttention();
std::unique_ptr<const AttentionKernel> MakePlainAttention();
std::unique_ptr<const DenseUpdateKernel> MakeDenseUpdate();
std::unique_ptr<const SparseUpdateKernel> MakeSparseUpdate();
std::unique_ptr<const SparseAggregateUpdateKernel> MakeSparseAggregateUpdate();
std::unique_ptr<const RowwiseKernel> MakeRowwise();

// All of them, best first: register_cuda.cc.
void RegisterCudaKernels(KernelRegistry& registry);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_KERNELS_H_
