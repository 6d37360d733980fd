// SPDX-License-Identifier: Apache-2.0
// Where a plan's lasting memory comes from. The builder asks for the same pieces, in the same order, whether they are
// only counted (CountingAllocator) or really taken (DeviceAllocator); so the bytes that a caller admits are those that
// the plan will hold.
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

// What a plan's arguments point to: memory of its own, and what the graph derived for it.
struct PlanMemory {
  Buffer arena;
  std::vector<Buffer> constants;
  int64_t constant_bytes = 0;
  std::vector<std::shared_ptr<const DeviceCsr>> adjacencies;
  std::vector<std::shared_ptr<const DeviceVector>> degree_scales;
  std::vector<AdjacencyLayoutRef> layouts;
};

// What a kernel works on beside an adjacency (Kernel::MakeLayout).
struct LayoutRequest {
  std::string_view kernel;
  std::string name;         // not empty
  int64_t bytes_bound = 0;  // Kernel::LayoutBytesBound: how large it is shows when it is made
  LayoutMaker make;
};

// One thread. What it returns is valid as long as the PlanMemory that it is put into. Errors are the device's and the
// graph's: RESOURCE_EXHAUSTED, FAILED_PRECONDITION.
class PlanAllocator {
 public:
  // Writes W [rows, cols] to `to`, as a kernel reads it.
  using WeightPacker = std::function<void(ConstMatrixView weight, void* to)>;

  virtual ~PlanAllocator() = default;

  // `bytes` of `host`, copied to the device.
  virtual StatusOr<const void*> Copy(const void* host, size_t bytes) = 0;
  // `weight` in `bytes` of device memory.
  virtual StatusOr<const void*> Pack(const ProductWeight& weight, size_t bytes, const WeightPacker& pack) = 0;
  virtual StatusOr<CsrView> Adjacency(const AdjacencySpec& spec, const AdjacencyShape& shape) = 0;
  virtual StatusOr<const float*> DegreeScale(SelfLoops loops) = 0;
  virtual StatusOr<const AdjacencyLayout*> Layout(const AdjacencySpec& spec, const LayoutRequest& request) = 0;
  // The memory of values and scratch. Called once, last.
  virtual StatusOr<char*> Arena(size_t bytes) = 0;
};

// Takes nothing, and returns null pointers.
class CountingAllocator final : public PlanAllocator {
 public:
  // `graph` must outlive it.
  explicit CountingAllocator(const PreparedGraph& graph) : derived_(graph) {}

  // Bytes so far: exact, but for layouts, which count with their bounds. What the graph holds already is not counted.
  int64_t bytes() const { return own_bytes_ + derived_.total(); }

  StatusOr<const void*> Copy(const void* host, size_t bytes) override;
  StatusOr<const void*> Pack(const ProductWeight& weight, size_t bytes, const WeightPacker& pack) override;
  StatusOr<CsrView> Adjacency(const AdjacencySpec& spec, const AdjacencyShape& shape) override;
  StatusOr<const float*> DegreeScale(SelfLoops loops) override;
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

  // What was taken. REQUIRES: nothing is asked for afterwards.
  PlanMemory TakeMemory() { return std::move(memory_); }

  StatusOr<const void*> Copy(const void* host, size_t bytes) override;
  StatusOr<const void*> Pack(const ProductWeight& weight, size_t bytes, const WeightPacker& pack) override;
  StatusOr<CsrView> Adjacency(const AdjacencySpec& spec, const AdjacencyShape& shape) override;
  StatusOr<const float*> DegreeScale(SelfLoops loops) override;
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
