// SPDX-License-Identifier: Apache-2.0
#include "engine/tuning/product_work.h"

#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/device/row_stride.h"
#include "engine/tune/kept_record.h"
#include "engine/tune/work.h"

namespace vicinal {
namespace {

constexpr double kMostBytes = 1 << 30, kMostOperations = 2e11;

// It says nothing about the kernel that was to be prepared.
bool IsLackOfMemory(const Status& status) {
  if (status.code() == StatusCode::kResourceExhausted) return true;
  const auto detail = DetailOf(status);
  return detail.has_value() && detail->reason == "OVER_BUDGET";
}

// With its memory reserved for as long as that takes.
Status PrepareKernel(const TuningTools& tools, const DenseUpdateKernel& kernel, const DenseUpdateProblem& problem,
                     const std::string& configuration, LeasedRuns* runs) {
  // Declared first, so that it is released last.
  Reservation memory;
  const std::unique_ptr<KernelPreparation> preparation = kernel.Prepare(problem);
  if (preparation == nullptr) return OkStatus();
  VICINAL_ASSIGN_OR_RETURN(
      memory, tools.budget->Reserve(Account::kTuning, preparation->bytes(), "preparing a kernel of products"));
  return runs->Prepare(configuration, preparation.get());
}

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
  VICINAL_ASSIGN_OR_RETURN(input->left_out, PrepareProductKernels(tools, input->key, rows, runs));
  input->only_to_compare = true;
  input->adjacency.rows = input->adjacency.cols = input->shape.rows = input->shape.cols = measured;
  return measured < rows ? static_cast<double>(measured) / static_cast<double>(rows) : 1.0;
}

StatusOr<std::vector<KernelRefusal>> PrepareProductKernels(const TuningTools& tools, const TuningKey& key, int64_t rows,
                                                           LeasedRuns* runs) {
  std::vector<KernelRefusal> left_out;
  const DenseUpdateProblem problem = DenseUpdateProblemOf(key, rows);
  for (const auto& entry : tools.registry->dense_update.kernels()) {
    const DenseUpdateKernel& kernel = entry->kernel();
    if (kernel.device() != tools.device->kind() || kernel.fallback_only() || !kernel.WhyNotTried(problem).empty())
      continue;
    const std::string name = ConfigurationName(key.operation, kernel.name(), NameParameters(kernel, KernelConfig()));
    if (tools.first_runs != nullptr && !tools.first_runs->WhyQuarantined(name).empty()) continue;
    const Status prepared = PrepareKernel(tools, kernel, problem, name, runs);
    if (prepared.ok()) continue;
    if (!IsLackOfMemory(prepared)) return prepared;
    left_out.push_back({std::string(kernel.name()),
                        absl::StrCat("left out, because it could not be prepared: ", std::string(prepared.message()))});
  }
  return left_out;
}

std::string NoteOnLeftOut(const std::vector<KernelRefusal>& left_out) {
  if (left_out.empty()) return {};
  std::string names;
  for (const KernelRefusal& one : left_out) absl::StrAppend(&names, names.empty() ? "" : ", ", one.kernel);
  return absl::StrCat(names, left_out.size() == 1 ? " was" : " were",
                      " left out, because memory was short; tune again when more is free");
}

}  // namespace vicinal
