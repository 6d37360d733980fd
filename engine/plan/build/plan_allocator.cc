// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/build/plan_allocator.h"

#include <cstdlib>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/plan/build/scratch_ledger.h"

namespace vicinal::internal {
namespace {

// Host memory, aligned as Kernel::Pack requires.
struct AlignedBytes {
  explicit AlignedBytes(size_t bytes)
      : data(std::aligned_alloc(ScratchLedger::kAlignment,
                                (bytes / ScratchLedger::kAlignment + 1) * ScratchLedger::kAlignment)) {}
  ~AlignedBytes() { std::free(data); }
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  void* data;
};

}  // namespace

StatusOr<const void*> CountingAllocator::Copy(const void*, size_t bytes) {
  own_bytes_ += static_cast<int64_t>(bytes);
  return nullptr;
}

StatusOr<const void*> CountingAllocator::Pack(const ProductWeight&, size_t bytes, const WeightPacker&) {
  own_bytes_ += static_cast<int64_t>(bytes);
  return nullptr;
}

StatusOr<CsrView> CountingAllocator::Adjacency(const AdjacencySpec& spec, const AdjacencyShape& shape) {
  derived_.AddAdjacency(spec, shape);
  return CsrView{shape.rows, shape.cols, shape.edges, nullptr, nullptr, nullptr};
}

StatusOr<const float*> CountingAllocator::DegreeScale(SelfLoops loops) {
  derived_.AddDegreeScale(loops);
  return nullptr;
}

StatusOr<const float*> CountingAllocator::EdgeFeatures() {
  derived_.AddEdgeFeatures();
  return nullptr;
}

StatusOr<const float*> CountingAllocator::MeanEdgeFeatures() {
  derived_.AddMeanEdgeFeatures();
  return nullptr;
}

StatusOr<const AdjacencyLayout*> CountingAllocator::Layout(const AdjacencySpec& spec, const LayoutRequest& request) {
  derived_.AddLayout(spec, request.kernel, request.name, request.bytes_bound);
  return nullptr;
}

StatusOr<char*> CountingAllocator::Arena(size_t bytes) {
  own_bytes_ += static_cast<int64_t>(bytes);
  return nullptr;
}

const void* DeviceAllocator::Keep(Buffer buffer) {
  memory_.constant_bytes += static_cast<int64_t>(buffer.bytes());
  memory_.constants.push_back(std::move(buffer));
  return memory_.constants.back().data();
}

StatusOr<const void*> DeviceAllocator::Copy(const void* host, size_t bytes) {
  VICINAL_ASSIGN_OR_RETURN(Buffer buffer, device_.Allocate(bytes));
  VICINAL_RETURN_IF_ERROR(device_.CopyFromHost(buffer.data(), host, bytes));
  return Keep(std::move(buffer));
}

StatusOr<const void*> DeviceAllocator::Pack(const ProductWeight& weight, size_t bytes, const WeightPacker& pack) {
  std::vector<float> rounded;
  const float* values = nullptr;
  if (weight.plain()) {
    values = weight.pieces[0].sent->values.data();
  } else {
    rounded.resize(weight.rows * weight.cols);
    weight.Round(rounded.data());
    values = rounded.data();
  }
  const ConstMatrixView view = {values, weight.rows, weight.cols, weight.cols};
  if (device_.kind() == DeviceKind::kCpu) {
    VICINAL_ASSIGN_OR_RETURN(Buffer buffer, device_.Allocate(bytes));
    if (bytes > 0) pack(view, buffer.data());
    return Keep(std::move(buffer));
  }
  AlignedBytes packed(bytes);
  if (packed.data == nullptr) {
    return ResourceExhausted("OUT_OF_MEMORY", "no memory to pack a model's weights; free graphs or models, or retry",
                             std::chrono::seconds(1));
  }
  pack(view, packed.data);
  return Copy(packed.data, bytes);
}

StatusOr<CsrView> DeviceAllocator::Adjacency(const AdjacencySpec& spec, const AdjacencyShape& shape) {
  VICINAL_ASSIGN_OR_RETURN(std::shared_ptr<const DeviceCsr> adjacency, graph_.Adjacency(spec));
  VICINAL_DCHECK(adjacency->view().nnz == shape.edges && (adjacency->view().value != nullptr) == shape.weighted);
  memory_.adjacencies.push_back(adjacency);
  return adjacency->view();
}

StatusOr<const float*> DeviceAllocator::DegreeScale(SelfLoops loops) {
  VICINAL_ASSIGN_OR_RETURN(std::shared_ptr<const DeviceVector> scale, graph_.DegreeScale(loops));
  memory_.vectors.push_back(scale);
  return scale->data();
}

StatusOr<const float*> DeviceAllocator::EdgeFeatures() { return graph_.EdgeFeatures(); }

StatusOr<const float*> DeviceAllocator::MeanEdgeFeatures() {
  VICINAL_ASSIGN_OR_RETURN(std::shared_ptr<const DeviceVector> means, graph_.MeanEdgeFeatures());
  memory_.vectors.push_back(means);
  return means->data();
}

StatusOr<const AdjacencyLayout*> DeviceAllocator::Layout(const AdjacencySpec& spec, const LayoutRequest& request) {
  VICINAL_ASSIGN_OR_RETURN(AdjacencyLayoutRef layout, graph_.Layout(spec, request.kernel, request.name, request.make));
  memory_.layouts.push_back(layout);
  return layout.get();
}

StatusOr<char*> DeviceAllocator::Arena(size_t bytes) {
  VICINAL_ASSIGN_OR_RETURN(memory_.arena, device_.Allocate(bytes));
  return memory_.arena.as<char>();
}

}  // namespace vicinal::internal
