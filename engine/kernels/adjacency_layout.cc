// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/adjacency_layout.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "engine/device/cpu_quota.h"

namespace vicinal {
namespace {

// An upper limit, as layouts are made while requests are served: more threads would slow those down.
constexpr int kMaxThreads = 8;

int NumThreads() {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());  // that this process may run on
  const double quota = CpuQuota();
  const int granted = quota > 0 ? static_cast<int>(std::ceil(quota)) : kMaxThreads;
  return std::clamp(std::min(cores, granted), 1, kMaxThreads);
}

}  // namespace

LayoutSource::LayoutSource(const CsrView& adjacency, std::span<const int64_t> blocks, Device& device)
    : adjacency_(adjacency), blocks_(blocks), device_(device) {}

StatusOr<CsrView> LayoutSource::OnHost() {
  if (device_.kind() == DeviceKind::kCpu) return adjacency_;
  if (!copied_) {
    row_ptr_.resize(adjacency_.rows + 1);
    col_.resize(adjacency_.nnz);
    value_.resize(adjacency_.value != nullptr ? adjacency_.nnz : 0);
    VICINAL_RETURN_IF_ERROR(device_.CopyToHost(row_ptr_.data(), adjacency_.row_ptr, row_ptr_.size() * sizeof(int64_t)));
    VICINAL_RETURN_IF_ERROR(device_.CopyToHost(col_.data(), adjacency_.col, col_.size() * sizeof(int32_t)));
    VICINAL_RETURN_IF_ERROR(device_.CopyToHost(value_.data(), adjacency_.value, value_.size() * sizeof(float)));
    copied_ = true;
  }
  CsrView view = adjacency_;
  view.row_ptr = row_ptr_.data();
  view.col = col_.data();
  view.value = adjacency_.value != nullptr ? value_.data() : nullptr;
  return view;
}

ThreadPool& LayoutSource::pool() {
  if (pool_ == nullptr) pool_ = std::make_unique<ThreadPool>(NumThreads());
  return *pool_;
}

}  // namespace vicinal
