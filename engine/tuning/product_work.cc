// SPDX-License-Identifier: Apache-2.0
#include "engine/tuning/product_work.h"

#include <algorithm>
#include <memory>
#include <string>

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
  VICINAL_RETURN_IF_ERROR(PrepareProductKernels(tools, input->key, rows, runs));
  input->only_to_compare = true;
  input->adjacency.rows = input->adjacency.cols = input->shape.rows = input->shape.cols = measured;
  return measured < rows ? static_cast<double>(measured) / static_cast<double>(rows) : 1.0;
}

Status PrepareProductKernels(const TuningTools& tools, const TuningKey& key, int64_t rows, LeasedRuns* runs) {
  const DenseUpdateProblem problem = DenseUpdateProblemOf(key, rows);
  for (const auto& entry : tools.registry->dense_update.kernels()) {
    const DenseUpdateKernel& kernel = entry->kernel();
    if (kernel.device() != tools.device->kind() || kernel.fallback_only() || !kernel.WhyNotTried(problem).empty())
      continue;
    const std::string name = ConfigurationName(key.operation, kernel.name(), NameParameters(kernel, KernelConfig()));
    if (tools.first_runs != nullptr && !tools.first_runs->WhyQuarantined(name).empty()) continue;
    // Declared first, so that it is released last.
    Reservation memory;
    const std::unique_ptr<KernelPreparation> preparation = kernel.Prepare(problem);
    if (preparation == nullptr) continue;
    VICINAL_ASSIGN_OR_RETURN(
        memory, tools.budget->Reserve(Account::kTuning, preparation->bytes(), "preparing a kernel of products"));
    VICINAL_RETURN_IF_ERROR(runs->Prepare(name, preparation.get()));
  }
  return OkStatus();
}

}  // namespace vicinal
