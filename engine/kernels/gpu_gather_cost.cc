// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/gpu_gather_cost.h"

#include <algorithm>

namespace vicinal {
namespace {

constexpr double kL2Speed = 8.7e12, kMemorySpeed = 4.2e12;  // bytes per second, measured on an H200
constexpr double kL2Bytes = 50e6;                           // share of the 60 MB that gathered rows use
constexpr double kLaunchSeconds = 3e-6;

double Seconds(const WorkShape& shape, double columns, double element_bytes, double index_bytes_per_edge,
               double factor) {
  const double row_bytes = columns * element_bytes;
  const double rows = static_cast<double>(shape.rows), edges = static_cast<double>(shape.edges);
  const double in_l2 = std::min(1.0, kL2Bytes / std::max(1.0, static_cast<double>(shape.cols) * row_bytes));
  const double gather = edges * row_bytes * (in_l2 / kL2Speed + (1.0 - in_l2) / kMemorySpeed);
  const double streamed = (edges * index_bytes_per_edge + rows * columns * 4.0) / kMemorySpeed;
  return kLaunchSeconds + factor * (gather + streamed);
}

}  // namespace

double GpuGatherSeconds(const AggregateProblem& problem, const WorkShape& shape, double factor) {
  const bool weight_per_edge = problem.weighted && !problem.source_scaled;
  return Seconds(shape, static_cast<double>(problem.width), problem.storage == Storage::kFloat32 ? 4.0 : 2.0,
                 weight_per_edge ? 8.0 : 4.0, factor);
}

double GpuGatherSeconds(const AttentionProblem& problem, const WorkShape& shape, double factor) {
  return Seconds(shape, static_cast<double>(problem.heads * problem.head_width), 4.0, 4.0, factor);
}

}  // namespace vicinal
