// SPDX-License-Identifier: Apache-2.0
// Allocates a plan's lasting memory. The builder requests the same pieces, in the same order, whether they are only
// counted (CountingAllocator) or allocated (DeviceAllocator); so the bytes that a caller admits are those that the plan
// will hold.
#ifndef VICINAL_ENGINE_PLAN_BUILD_PLAN_ALLOCATOR_H_
#define VICINAL_ENGINE_PLAN_BUILD_PLAN_ALLOCATOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/device/device.h"
#include "engine/plan/build/derived_bytes.h"
#include "engine/plan/rewrite/product_weight.h"
#include "engine/prepared/prepared_graph.h"

namespace vicinal::internal {

// The memory that a plan's arguments point to: its own, and data that the graph derived for it.
struct PlanMemory {
  Buffer arena;
  std::vector<Buffer> constants;
  int64_t constant_bytes = 0;
  std::vector<std::shared_ptr<const DeviceCsr>> adjacencies;
  std::vector<std::shared_ptr<const DeviceVector>> vectors;  // degree scales, mean features of edges
  std::vector<AdjacencyLayoutRef> layouts;
};

// A layout of an adjacency for a kernel (Kernel::MakeLayout).
struct LayoutRequest {
  std::string_view kernel;
  std::string name;         // not empty
  int64_t bytes_bound = 0;  // Kernel::LayoutBytesBound: the exact size is known once it is made
  LayoutMaker make;
};

// Not thread-safe. Returned pointers are valid as long as the PlanMemory. Errors of the device and the graph:
// RESOURCE_EXHAUSTED, FAILED_PRECONDITION.
class PlanAllocator {
 public:
  // Writes W [rows, cols] to `to` in a kernel's packed form.
  using WeightPacker = std::function<void(ConstMatrixView weight, void* to)>;

  virtual ~PlanAllocator() = default;

  // `bytes` of `host`, copied to the device.
  virtual StatusOr<const void*> Copy(const void* host, size_t bytes) = 0;
  // `weight` in `bytes` of device memory.
  virtual StatusOr<const void*> Pack(const ProductWeight& weight, size_t bytes, const WeightPacker& pack) = 0;
  virtual StatusOr<CsrView> Adjacency(const AdjacencySpec& spec, const AdjacencyShape& shape) = 0;
  virtual StatusOr<const float*> DegreeScale(SelfLoops loops) = 0;
  virtual StatusOr<const float*> EdgeFeatures() = 0;      // PreparedGraph::EdgeFeatures
  virtual StatusOr<const float*> MeanEdgeFeatures() = 0;  // PreparedGraph::MeanEdgeFeatures
  virtual StatusOr<const AdjacencyLayout*> Layout(const AdjacencySpec& spec, const LayoutRequest& request) = 0;
  // The memory of values and scratch. Called once, last.
  virtual StatusOr<char*> Arena(size_t bytes) = 0;
};

// Allocates nothing and returns null pointers.
class CountingAllocator final : public PlanAllocator {
 public:
  // `graph` must outlive it.
  explicit CountingAllocator(const PreparedGraph& graph) : derived_(graph) {}

  // Bytes so far: exact, except for layouts, which count with their bounds. Data that the graph has already is not
  // counted.
  int64_t bytes() const { return own_bytes_ + derived_.total(); }

  StatusOr<const void*> Copy(const void* host, size_t bytes) override;
  StatusOr<const void*> Pack(const ProductWeight& weight, size_t bytes, const WeightPacker& pack) override;
  StatusOr<CsrView> Adjacency(const AdjacencySpec& spec, const AdjacencyShape& shape) override;
  StatusOr<const float*> DegreeScale(SelfLoops loops) override;
  StatusOr<const float*> EdgeFeatures() override;
  StatusOr<const float*> MeanEdgeFeatures() override;
  StatusOr<const AdjacencyLayout*> Layout(const AdjacencySpec& spec, const LayoutRequest& request) override;
  StatusOr<char*> Arena(size_t bytes) override;

 private:
  int64_t own_bytes_ = 0;
  DerivedBytes derived_;
};

class DeviceAllocator final : public PlanAllocator {
 public:
  // Both must outlive it.
  DeviceAllocator(Device& device, const PreparedGraph& graph) : device_(device), graph_(graph) {}

  // The allocated memory. REQUIRES: no further requests afterwards.
  PlanMemory TakeMemory() { return std::move(memory_); }

  StatusOr<const void*> Copy(const void* host, size_t bytes) override;
  StatusOr<const void*> Pack(const ProductWeight& weight, size_t bytes, const WeightPacker& pack) override;
  StatusOr<CsrView> Adjacency(const AdjacencySpec& spec, const AdjacencyShape& shape) override;
  StatusOr<const float*> DegreeScale(SelfLoops loops) override;
  StatusOr<const float*> EdgeFeatures() override;
  StatusOr<const float*> MeanEdgeFeatures() override;
  StatusOr<const AdjacencyLayout*> Layout(const AdjacencySpec& spec, const LayoutRequest& request) override;
  StatusOr<char*> Arena(size_t bytes) override;

 private:
  const void* Keep(Buffer buffer);

  Device& device_;
  const PreparedGraph& graph_;
  PlanMemory memory_;
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_BUILD_PLAN_ALLOCATOR_H_
