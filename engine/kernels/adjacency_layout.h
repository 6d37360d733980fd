// SPDX-License-Identifier: Apache-2.0
// Data structures that kernels derive from an adjacency, once per graph: neighbour groups, edge blocks of a partition,
// a library's descriptors. Their content is private to the kernel. Plans and tuning create and keep them and pass them
// to every run (Kernel::MakeLayout, AggregateArgs::layout).
#ifndef VICINAL_ENGINE_KERNELS_ADJACENCY_LAYOUT_H_
#define VICINAL_ENGINE_KERNELS_ADJACENCY_LAYOUT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/thread_pool.h"
#include "engine/device/device.h"
#include "engine/device/views.h"

namespace vicinal {

// Immutable. May reference the adjacency that it was made from, which outlives it.
class AdjacencyLayout {
 public:
  virtual ~AdjacencyLayout() = default;
  // Bytes on the device and on the host together.
  virtual int64_t size_bytes() const = 0;
};
using AdjacencyLayoutRef = std::shared_ptr<const AdjacencyLayout>;

// The inputs of MakeLayout. Not thread-safe; lives while layouts are made.
class LayoutSource {
 public:
  // `adjacency` is in memory of `device`. `blocks` [B + 1] are ascending offsets from 0 to the number of rows that cut
  // rows and columns into communities or parts of a partition; empty: unknown. The arguments must outlive this object.
  LayoutSource(const CsrView& adjacency, std::span<const int64_t> blocks, Device& device);
  LayoutSource(const LayoutSource&) = delete;
  LayoutSource& operator=(const LayoutSource&) = delete;

  const CsrView& adjacency() const { return adjacency_; }
  std::span<const int64_t> blocks() const { return blocks_; }
  Device& device() const { return device_; }
  // The adjacency in host memory: the adjacency itself for the CPU, otherwise a copy made at the first call.
  StatusOr<CsrView> OnHost();
  // Threads for work on the host; created at the first call.
  ThreadPool& pool();

 private:
  const CsrView adjacency_;
  const std::span<const int64_t> blocks_;
  Device& device_;
  bool copied_ = false;
  std::vector<int64_t> row_ptr_;
  std::vector<int32_t> col_;
  std::vector<float> value_;
  std::unique_ptr<ThreadPool> pool_;
};

// Makes one layout from a source.
using LayoutMaker = std::function<StatusOr<AdjacencyLayoutRef>(LayoutSource& source)>;

}  // namespace vicinal

#endif  // VICINAL_ENGINE_KERNELS_ADJACENCY_LAYOUT_H_
