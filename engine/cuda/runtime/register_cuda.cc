// SPDX-License-Identifier: Apache-2.0
// Registers the GPU's kernels. Within an operation, kernels are tried in the order of registration.
#include "engine/cuda/runtime/register_cuda.h"

namespace vicinal::cuda {

// One per kernel, defined in its <strategy>_kernel.cc and called only here.
void AddBinnedRows(KernelRegistry& registry);
void AddDenseTiles(KernelRegistry& registry, const GpuLimits& limits);
void AddLengthSortedRows(KernelRegistry& registry);
void AddSourcePanels(KernelRegistry& registry, const GpuLimits& limits);
void AddRowCache(KernelRegistry& registry);
void AddNeighborGroup(KernelRegistry& registry, const GpuLimits& limits);
void AddPartitionDual(KernelRegistry& registry, CudaDevice* device);
void AddStagedRows(KernelRegistry& registry);
void AddCusparse(KernelRegistry& registry);
void AddNeighborGroupAtomics(KernelRegistry& registry, const GpuLimits& limits);
void AddFusedAttention(KernelRegistry& registry);
void AddPlainAttention(KernelRegistry& registry);
void AddTemplateSpmm(KernelRegistry& registry, const GpuLimits& limits);
void AddEdgePrograms(KernelRegistry& registry, CudaDevice* device);
void AddTemplateSddmm(KernelRegistry& registry);
void AddRegisterTiles(KernelRegistry& registry, const GpuLimits& limits);
void AddTensorTiles(KernelRegistry& registry, const GpuLimits& limits);
void AddCublas(KernelRegistry& registry, CudaDevice* device);
void AddWarpRows(KernelRegistry& registry);
void AddBinnedSparseUpdate(KernelRegistry& registry);
void AddDenseRow(KernelRegistry& registry);
void AddRowwise(KernelRegistry& registry);

void RegisterCudaKernels(KernelRegistry& registry, CudaDevice* device) {
  const GpuLimits limits = device != nullptr ? device->limits() : GpuLimits();
  // The engine's own kernels of the operation aggregate.
  AddBinnedRows(registry);
  AddDenseTiles(registry, limits);
  AddLengthSortedRows(registry);
  AddSourcePanels(registry, limits);
  AddRowCache(registry);
  // Published families and the vendor's library, used only if measured on a graph or forced.
  AddNeighborGroup(registry, limits);
  AddPartitionDual(registry, device);
  AddStagedRows(registry);
  AddCusparse(registry);
  AddNeighborGroupAtomics(registry, limits);
  // attention
  AddFusedAttention(registry);
  AddPlainAttention(registry);
  // message_reduce, expression, edge_scores
  AddTemplateSpmm(registry, limits);
  AddEdgePrograms(registry, device);
  AddTemplateSddmm(registry);
  // dense_update
  AddRegisterTiles(registry, limits);
  AddTensorTiles(registry, limits);
  AddCublas(registry, device);
  // sparse_update, sparse_aggregate_update
  AddWarpRows(registry);
  AddBinnedSparseUpdate(registry);
  AddDenseRow(registry);
  // rowwise
  AddRowwise(registry);
}

}  // namespace vicinal::cuda
