// SPDX-License-Identifier: Apache-2.0
#include "engine/tuning/product_work.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/device/row_stride.h"
#include "engine/tune/kept_record.h"
#include "engine/tune/work.h"

namespace vicinal {
namespace {

constexpr double kMostBytes = 1 << 30, kMostOperations = 2e11;

}  // namespace

bool AddAlike(const TuningTools& tools, const TuningKey& key, int64_t rows, const KernelSetting& a,
              const KernelSetting& b) {
  AdjacencyShape shape;
  shape.rows = shape.cols = rows;
  const auto order = [&](const KernelSetting& setting) {
    return ReductionOrderOf(*tools.registry, tools.device->kind(), shape, key, setting);
  };
  return order(a) == order(b);
}

int64_t MeasuredProductRows(const TuningKey& key, int64_t rows) {
  const double bytes = 4.0 * static_cast<double>(RowStrideFor(key.width) + RowStrideFor(key.outputs));
  const double operations = 2.0 * static_cast<double>(key.width) * static_cast<double>(key.outputs);
  const double most = std::min(kMostBytes / bytes, kMostOperations / operations);
  return std::min(rows, std::max(kProductRowsAtLeast, static_cast<int64_t>(most)));
}

StatusOr<double> PrepareProduct(const TuningTools& tools, LeasedRuns* runs, TrialInput* input) {
  const int64_t rows = input->adjacency.rows, measured = MeasuredProductRows(input->key, rows);
  VICINAL_RETURN_IF_ERROR(AskProductKernels(tools, input->key, rows, runs));
  input->only_to_compare = true;
  input->adjacency.rows = input->adjacency.cols = input->shape.rows = input->shape.cols = measured;
  return measured < rows ? static_cast<double>(measured) / static_cast<double>(rows) : 1.0;
}

Status AskProductKernels(const TuningTools& tools, const TuningKey& key, int64_t rows, LeasedRuns* runs) {
  const DenseUpdateProblem problem = DenseUpdateProblemOf(key, rows);
  std::vector<std::pair<const DenseUpdateKernel*, std::string>> asked;
  for (const auto& entry : tools.registry->dense_update.kernels()) {
    const DenseUpdateKernel& kernel = entry->kernel();
    if (kernel.device() != tools.device->kind() || kernel.fallback_only() || !kernel.WhyNotTried(problem).empty())
      continue;
    std::string name = ConfigurationName(key.operation, kernel.name(), NameParameters(kernel, KernelConfig()));
    if (tools.first_runs != nullptr && !tools.first_runs->WhyQuarantined(name).empty()) continue;
    asked.emplace_back(&kernel, std::move(name));
  }
  if (asked.size() < 2) return OkStatus();
  for (const auto& [kernel, name] : asked) {
    // clang 14 does not capture a structured binding by itself.
    VICINAL_RETURN_IF_ERROR(runs->Ask(name, [&problem, one = kernel] { (void)one->WhyUnsupported(problem); }));
  }
  return OkStatus();
}

}  // namespace vicinal
